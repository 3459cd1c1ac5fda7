// These headers are precompiled once for the tests of folders that include libtorch.
#pragma once

#include "device/torch_headers.h"
#include "precompiled.h"
