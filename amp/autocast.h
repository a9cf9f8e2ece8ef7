// autocast.h: what models ask about the region that they run in.
#ifndef HST_AUTOCAST_H
#define HST_AUTOCAST_H

#include "autograd/op.h"

// The dtype to which an operation of the table rounds its operands here; HST_F32 where it takes them as they are. A
// result that goes only there may be stored in this dtype at once: it would be rounded on its way in, to the same bits.
hst_dtype hst_operand_dtype(const hst_context *ctx, const hst_op *op);

#endif
