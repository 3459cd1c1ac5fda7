// Calls of a named operator, "aten::mm" or "lm::embedding", with their inputs.
#pragma once

#include <ATen/record_function.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace lmtrain::testing {

// Notes the calls on this thread, and on those that autograd has work for it, while it lives. One
// at a time.
class OperatorCalls {
 public:
  explicit OperatorCalls(std::string name, std::function<void()> on_call = {})
      : name_(std::move(name)), on_call_(std::move(on_call)) {
    listener() = this;
    handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&OperatorCalls::start)
                                             .needsInputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
  }
  ~OperatorCalls() {
    at::removeCallback(handle_);
    listener() = nullptr;
  }
  OperatorCalls(const OperatorCalls&) = delete;
  OperatorCalls& operator=(const OperatorCalls&) = delete;

  // Of each call so far.
  const std::vector<std::vector<c10::IValue>>& inputs() const { return inputs_; }

 private:
  static OperatorCalls*& listener() {
    static OperatorCalls* the_one = nullptr;
    return the_one;
  }
  static std::unique_ptr<at::ObserverContext> start(const at::RecordFunction& call) {
    OperatorCalls& to = *listener();
    if (to.name_ == call.name()) {
      // An interpreter's stack may hold more than the arguments, which are its last.
      const auto stack = call.inputs();
      const size_t count = std::min(call.num_inputs(), stack.size());
      to.inputs_.emplace_back(stack.end() - count, stack.end());
      if (to.on_call_) to.on_call_();
    }
    return nullptr;
  }

  std::string name_;
  std::function<void()> on_call_;
  std::vector<std::vector<c10::IValue>> inputs_;
  at::CallbackHandle handle_ = 0;
};

}  // namespace lmtrain::testing
