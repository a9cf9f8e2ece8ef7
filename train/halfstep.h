// halfstep.h: all that an application needs. The folders, in the order in which they are read:
#ifndef HST_HALFSTEP_H
#define HST_HALFSTEP_H

#include "tensor/tensor.h"     // contexts, dtypes, tensors, views, scopes
#include "autograd/custom.h"   // operations of the application's own
#include "autograd/autograd.h" // gradients
#include "ops/ops.h"           // operations
#include "amp/scaler.h"        // loss scalers
#include "amp/amp.h"           // autocast regions, presets
#include "amp/numerics.h"      // what 16 bits would do to a program's own numbers
#include "optim/optim.h"       // parameters, optimizers, schedules
#include "optim/scaling.h"     // a step in mixed precision
#include "models/models.h"     // the language model, its files, sampling
#include "data/data.h"         // texts and batches
#include "train/train.h"       // the trainer

#endif
