#include "device/failure.h"

#include <c10/util/Logging.h>
#include <gtest/gtest.h>

#include <system_error>
#include <utility>

#include "device/torch_headers.h"

namespace lmtrain {
namespace {

// 2^50 bytes, more than a processor can address, asked for in libtorch's way.
std::string allocate_too_much() {
  try {
    at::empty({int64_t{1} << 48}, at::kFloat);
  } catch (const c10::Error& error) {
    const Failure failure = describe_failure(error);
    EXPECT_EQ(failure.kind, ErrorKind::kMemory) << failure.message;
    return failure.message;
  }
  ADD_FAILURE() << "that much memory was there";
  return "";
}

TEST(Failure, OutOfMemoryInEveryForm) {
  EXPECT_NE(allocate_too_much().find("1024.0 TiB"), std::string::npos) << allocate_too_much();
  const std::vector<Failure> failures = {
      describe_failure(std::bad_alloc()),
      // As TorchScript passes it on.
      describe_failure(std::runtime_error("The following operation failed in the TorchScript "
                                          "interpreter.\nTraceback:\nRuntimeError: CUDA out of "
                                          "memory. Tried to allocate 2 GiB")),
      // Our own kernels.
      describe_failure(Error(ErrorKind::kInternal, "CUDA kernel swiglu: out of memory")),
  };
  for (const Failure& failure : failures) {
    EXPECT_EQ(failure.kind, ErrorKind::kMemory) << failure.message;
    EXPECT_NE(failure.message.find("out of memory"), std::string::npos) << failure.message;
    EXPECT_NE(failure.message.find("lower batch.micro_tokens"), std::string::npos)
        << failure.message;
  }
}

// A thread that is refused, for want of addresses for its stack or of a number.
TEST(Failure, ARefusedThreadNamesItsLimits) {
  for (const std::errc reason :
       {std::errc::not_enough_memory, std::errc::resource_unavailable_try_again}) {
    const Failure failure = describe_failure(std::system_error(std::make_error_code(reason)));
    EXPECT_EQ(failure.kind, ErrorKind::kMemory) << failure.message;
    for (const char* part : {"out of memory or threads", "ulimit -u", "ulimit -v", "lower threads"})
      EXPECT_NE(failure.message.find(part), std::string::npos) << failure.message;
  }
}

// The words of the libraries that allocate past libtorch on a GPU, as libtorch passes them on.
TEST(Failure, OutOfMemoryInTheWordsOfAGpusLibraries) {
  for (const char* text :
       {"CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED",
        "cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate(handle)`",
        "CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation' in "
        "https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more "
        "information.",
        "CUDA driver error: cudaErrorMemoryAllocation"}) {
    const Failure failure = describe_failure(c10::Error(std::string(text)));
    EXPECT_EQ(failure.kind, ErrorKind::kMemory) << text;
    EXPECT_EQ(failure.cause, "out of memory on the GPU") << text;
    EXPECT_FALSE(is_refused_by_cudnn(c10::Error(std::string(text)))) << text;
  }
  const Failure failure = describe_failure(c10::OutOfMemoryError(
      {__func__, __FILE__, __LINE__},
      "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.25 GiB of "
      "which 1.10 GiB is free."));
  EXPECT_EQ(failure.cause, "out of memory on the GPU (2.50 GiB more were asked for)");
}

TEST(Failure, AShapeThatCudnnRefusesIsTold) {
  const std::string text =
      "cuDNN Frontend error: [cudnn_frontend] Error: No execution plans support the graph.";
  EXPECT_TRUE(is_refused_by_cudnn(c10::Error(text)));
  // As TorchScript passes it on.
  EXPECT_TRUE(is_refused_by_cudnn(
      std::runtime_error("The following operation failed in the TorchScript interpreter.\n"
                         "Traceback:\nRuntimeError: " +
                         text)));
  EXPECT_NE(describe_failure(c10::Error(text)).kind, ErrorKind::kMemory);
  EXPECT_FALSE(is_refused_by_cudnn(c10::Error(
      std::string("cuDNN Frontend error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"))));
  EXPECT_FALSE(is_refused_by_cudnn(c10::Error(std::string("sizes do not match"))));
}

TEST(Failure, OurOwnErrorsStayAsTheyAre) {
  const Failure failure = describe_failure(Error(ErrorKind::kNumeric, "diverged"));
  EXPECT_EQ(failure.kind, ErrorKind::kNumeric);
  EXPECT_EQ(failure.message, "diverged");
}

// The others end with the exit code of the process that ended first.
TEST(Failure, OfAnotherProcessHasItsExitCode) {
  const Failure failure = describe_failure(ProcessLost(3, "rank 1 has found bad data"));
  EXPECT_EQ(failure.exit_code, 3);
  EXPECT_EQ(failure.message, "rank 1 has found bad data");
  EXPECT_EQ(describe_failure(Error(ErrorKind::kNumeric, "diverged")).exit_code, 4);
}

TEST(Failure, AnythingElseIsInternalInOneLine) {
  const Failure failure =
      describe_failure(std::runtime_error("a\nlong\ntraceback\nwhat happened\n"));
  EXPECT_EQ(failure.kind, ErrorKind::kInternal);
  EXPECT_EQ(failure.message, "internal error: what happened; please report it");
  const Failure torch = describe_failure(c10::Error(std::string("sizes do not match")));
  EXPECT_EQ(torch.kind, ErrorKind::kInternal);
  EXPECT_TRUE(torch.message.starts_with("libtorch: ")) << torch.message;
}

// c10's own log is switched off where several processes work together (distributed/connect.cpp).
TEST(TorchWarnings, AreInTheLogWhereC10sLogIsOff) {
  const int level = std::exchange(FLAGS_caffe2_log_level, c10::GLOG_FATAL);
  const auto said = [] {
    ::testing::internal::CaptureStderr();
    TORCH_WARN("two", " words");
    return ::testing::internal::GetCapturedStderr();
  };
  c10::WarningHandler* const before = c10::WarningUtils::get_warning_handler();
  EXPECT_EQ(said(), "");
  log_torch_warnings();
  const std::string line = said();
  EXPECT_TRUE(line.starts_with("warning: libtorch, failure_test.cpp:")) << line;
  EXPECT_TRUE(line.ends_with(": two words\n")) << line;
  c10::WarningUtils::set_warning_handler(before);
  FLAGS_caffe2_log_level = level;
}

}  // namespace
}  // namespace lmtrain
