/* SPDX-License-Identifier: LGPL-2.1-or-later */
/* The public header, with what those who use it in here expect beside it. */
#ifndef BLKUP_TRACE_TRACE_H
#define BLKUP_TRACE_TRACE_H

#include <blkup/trace.h>

#include "base/cleanup.h"
#include "base/json.h"

#endif
