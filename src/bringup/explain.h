/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The public header; in here it brings the clean-up attributes. */
#ifndef BLKUP_BRINGUP_EXPLAIN_H
#define BLKUP_BRINGUP_EXPLAIN_H

#include <blkup/explain.h>

#include "base/cleanup.h"

#endif
