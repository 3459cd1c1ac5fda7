// CUDA graphs as raw pointers, no torch: what is queued on a stream is recorded instead of done,
// and then launched as often as one likes.
//
// A capture is ended by the thread that began it; other threads may queue on the stream meanwhile.
// `stream` is a cudaStream_t, not the default one while it is captured. Error(kInternal) where the
// runtime refuses.
#pragma once

namespace lmtrain::cuda {

void begin_capture(void* stream);
// The graph, to be given back by destroy_graph. Error(kInternal) too where something was queued or
// asked that a graph cannot hold; no capture is under way any more then.
void* end_capture(void* stream);
// Ends a capture of which nothing is wanted.
void abandon_capture(void* stream);

void launch_graph(void* graph, void* stream);
// One that is still running ends first.
void destroy_graph(void* graph);

}  // namespace lmtrain::cuda
