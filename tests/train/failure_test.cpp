#include "train/failure.h"

#include <gtest/gtest.h>

#include <system_error>

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
      describe_failure(std::system_error(std::make_error_code(std::errc::not_enough_memory))),
      describe_failure(
          std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again))),
      // As TorchScript passes it on.
      describe_failure(std::runtime_error("The following operation failed in the TorchScript "
                                          "interpreter.\nTraceback:\nRuntimeError: CUDA out of "
                                          "memory. Tried to allocate 2 GiB")),
  };
  for (const Failure& failure : failures) {
    EXPECT_EQ(failure.kind, ErrorKind::kMemory) << failure.message;
    EXPECT_NE(failure.message.find("out of memory"), std::string::npos) << failure.message;
    EXPECT_NE(failure.message.find("lower batch.micro_tokens"), std::string::npos)
        << failure.message;
  }
}

TEST(Failure, OurOwnErrorsStayAsTheyAre) {
  const Failure failure = describe_failure(Error(ErrorKind::kNumeric, "diverged"));
  EXPECT_EQ(failure.kind, ErrorKind::kNumeric);
  EXPECT_EQ(failure.message, "diverged");
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

}  // namespace
}  // namespace lmtrain
