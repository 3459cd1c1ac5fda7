// Captures CUDA graphs, as raw pointers, no torch: the work queued on a stream is recorded instead
// of done, and can then be launched any number of times.
//
// A capture must be ended by the thread that began it; other threads may queue on the stream
// meanwhile. `stream` is a cudaStream_t, and not the default one while it is captured. Functions
// throw Error(kInternal) where the runtime refuses, except abandon_capture() and destroy_graph(),
// which throw nothing.
#pragma once

namespace lmtrain::cuda {

void begin_capture(void* stream);
// Ends a capture and returns the graph, which destroy_graph() must free. Throws Error(kInternal)
// also where something was queued or asked that a graph cannot hold; no capture is under way any
// more then.
void* end_capture(void* stream);
// Ends a capture and drops its graph.
void abandon_capture(void* stream);

void launch_graph(void* graph, void* stream);
// Frees a graph without waiting; a launch that is still running ends first.
void destroy_graph(void* graph);

}  // namespace lmtrain::cuda
