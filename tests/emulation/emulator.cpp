// The threads of a block as fibers: each runs until it waits for others, and goes on once all of
// them wait for the same. A fiber lives on from block to block. It is switched to by _longjmp,
// which, other than swapcontext, does not ask the kernel.
#include <setjmp.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "cuda_runtime.h"

dim3 gridDim(1), blockDim(1), blockIdx(0), threadIdx(0);

struct EmulatedGraph {
  std::vector<std::function<void()>> kernels;
  bool valid = true;
};

namespace emulation {
namespace {

constexpr int kMaxThreads = 1024;
constexpr int kWarp = 32;
constexpr size_t kMaxSharedBytes = 48 << 10;
constexpr size_t kStackBytes = 64 << 10;

enum class State { kReady, kWaitsForWarp, kWaitsForBlock, kDone };

struct Fiber {
  jmp_buf context;
  std::unique_ptr<char[]> stack;  // from its first turn on
  State state = State::kDone;
  int exchanges = 0;
};

std::vector<Fiber> fibers(kMaxThreads);
uint64_t exchanged[2][kMaxThreads];
jmp_buf scheduler;
const std::function<void()>* body = nullptr;
int current = 0;
int num_threads = 0;
bool from_last = false;
std::vector<std::pair<void*, size_t>> shared_memory;  // of all kernels so far
cudaError_t last_error = cudaSuccess;
std::unique_ptr<EmulatedGraph> capture;  // the one under way
cudaStream_t captured_stream = nullptr;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "emulation: block %u, thread %d: %s\n", blockIdx.x, current, what);
  std::abort();
}

// Back to the scheduler, until the next turn.
void wait(State state) {
  Fiber& fiber = fibers[current];
  fiber.state = state;
  if (_setjmp(fiber.context) == 0) _longjmp(scheduler, 1);
}

void live() {
  for (;;) {
    (*body)();
    wait(State::kDone);
  }
}

void give_turn(Fiber& fiber) {
  if (_setjmp(scheduler) != 0) return;
  if (fiber.stack) _longjmp(fiber.context, 1);
  fiber.stack = std::make_unique<char[]>(kStackBytes);
  ucontext_t context{};
  getcontext(&context);
  context.uc_stack.ss_sp = fiber.stack.get();
  context.uc_stack.ss_size = kStackBytes;
  makecontext(&context, live, 0);
  setcontext(&context);
}

// Whether all of [begin, end) wait as `state` says; a thread that is done will never come.
bool all_wait(int begin, int end, State state) {
  int waiting = 0, done = 0;
  for (int i = begin; i < end; ++i) {
    waiting += fibers[i].state == state;
    done += fibers[i].state == State::kDone;
  }
  if (waiting > 0 && done > 0) fail("others have returned from the kernel");
  return waiting == end - begin;
}

bool release_if_all_wait(int begin, int end, State state) {
  if (!all_wait(begin, end, state)) return false;
  for (int i = begin; i < end; ++i) fibers[i].state = State::kReady;
  return true;
}

int in_turn(int turn, int count) { return from_last ? count - 1 - turn : turn; }

// As far as it comes without the other warps: one that is ahead of them writes what they still read
// if a barrier is missing.
void run_warp(int begin, int end, dim3 block) {
  do {
    for (int turn = 0; turn < end - begin; ++turn) {
      current = begin + in_turn(turn, end - begin);
      if (fibers[current].state != State::kReady) continue;
      const auto thread = static_cast<unsigned>(current);
      threadIdx = {thread % block.x, thread / block.x};
      begin_thread(current - begin);
      give_turn(fibers[current]);
    }
    end_turn_of_warp();
  } while (release_if_all_wait(begin, end, State::kWaitsForWarp));
}

void poison(const std::pair<void*, size_t>& memory) {
  std::memset(memory.first, 0xFF, memory.second);
}

void run_block(dim3 block) {
  for (const auto& memory : shared_memory) poison(memory);
  for (int i = 0; i < num_threads; ++i) {
    fibers[i].state = State::kReady;
    fibers[i].exchanges = 0;
  }
  const int num_warps = (num_threads + kWarp - 1) / kWarp;
  do {
    for (int turn = 0; turn < num_warps; ++turn) {
      const int begin = in_turn(turn, num_warps) * kWarp;
      run_warp(begin, std::min(begin + kWarp, num_threads), block);
    }
  } while (release_if_all_wait(0, num_threads, State::kWaitsForBlock));
  for (current = 0; current < num_threads; ++current) {
    if (fibers[current].state != State::kDone) fail("waits for what never comes");
  }
}

void run(const char* name, dim3 grid, dim3 block, const std::function<void()>& thread) {
  begin_kernel(name);
  gridDim = grid;
  blockDim = block;
  num_threads = static_cast<int>(block.x * block.y);
  body = &thread;
  for (unsigned y = 0; y < grid.y; ++y) {
    for (unsigned x = 0; x < grid.x; ++x) {
      blockIdx = {x, y};
      run_block(block);
    }
  }
}

}  // namespace

void poison_before_blocks(void* first, size_t bytes) {
  shared_memory.emplace_back(first, bytes);
  poison(shared_memory.back());
}

void check_index(const Index& i, size_t count) {
  if (i.value < 0 || static_cast<size_t>(i.value) >= count) fail("an index out of shared memory");
}

void set_descending(bool descending) { from_last = descending; }

void queue(const char* name, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
           const std::function<void()>& thread) {
  const bool captured = capture && stream == captured_stream;
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > kMaxThreads || block.z != 1 || grid.x == 0 || grid.y == 0 ||
      grid.y > 65535 || grid.z != 1 || shared_bytes > kMaxSharedBytes) {
    last_error = cudaErrorInvalidValue;
    if (captured) capture->valid = false;
    return;
  }
  if (captured) {
    capture->kernels.push_back([=] { run(name, grid, block, thread); });
  } else {
    run(name, grid, block, thread);
  }
}

void wait_for_block() { wait(State::kWaitsForBlock); }
void wait_for_warp() { wait(State::kWaitsForWarp); }
uint64_t* exchange() { return exchanged[fibers[current].exchanges++ % 2]; }
int thread_in_block() { return current; }

}  // namespace emulation

cudaError_t cudaGetLastError() {
  const cudaError_t error = emulation::last_error;
  emulation::last_error = cudaSuccess;
  return error;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  // The default stream cannot be captured, nor two at a time here.
  if (stream == nullptr || emulation::capture) return cudaErrorInvalidValue;
  emulation::capture = std::make_unique<EmulatedGraph>();
  emulation::captured_stream = stream;
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  if (!emulation::capture || stream != emulation::captured_stream) return cudaErrorInvalidValue;
  const std::unique_ptr<EmulatedGraph> ended = std::move(emulation::capture);
  if (!ended->valid) return cudaErrorStreamCaptureInvalidated;
  *graph = new EmulatedGraph(*ended);
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* ready, cudaGraph_t graph, unsigned long long) {
  *ready = new EmulatedGraph(*graph);
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t) {
  for (const auto& kernel : graph->kernels) kernel();
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { return cudaGraphDestroy(graph); }
