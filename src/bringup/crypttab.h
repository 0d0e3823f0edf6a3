/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The public header; in here it brings the clean-up attributes, and errors that can be filled. */
#ifndef BLKUP_BRINGUP_CRYPTTAB_H
#define BLKUP_BRINGUP_CRYPTTAB_H

#include <blkup/crypttab.h>

#include "base/cleanup.h"
#include "base/error.h"

#endif
