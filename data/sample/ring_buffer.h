// A ring buffer of fixed capacity for one producer and one consumer.
#ifndef SAMPLE_RING_BUFFER_H_
#define SAMPLE_RING_BUFFER_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <optional>
#include <utility>

namespace sample {

template <typename T, std::size_t kCapacity>
class RingBuffer {
	static_assert(kCapacity > 0, "a ring needs room for one element");

public:
	// Returns false, and leaves `value` alone, when the ring is full.
	bool push(T&& value) {
		const std::size_t head = head_.load(std::memory_order_relaxed);
		const std::size_t next = advance(head);
		if (next == tail_.load(std::memory_order_acquire)) {
			return false;
		}
		slots_[head] = std::move(value);
		head_.store(next, std::memory_order_release);
		return true;
	}

	std::optional<T> pop() {
		const std::size_t tail = tail_.load(std::memory_order_relaxed);
		if (tail == head_.load(std::memory_order_acquire)) {
			return std::nullopt;	// empty
		}
		std::optional<T> value(std::move(slots_[tail]));
		tail_.store(advance(tail), std::memory_order_release);
		return value;
	}

	bool empty() const { return head_.load() == tail_.load(); }

private:
	static constexpr std::size_t kSlots = kCapacity + 1;	// one stays free: full and empty differ

	static std::size_t advance(std::size_t index) { return index + 1 == kSlots ? 0 : index + 1; }

	std::array<T, kSlots> slots_{};
	std::atomic<std::size_t> head_{0};
	std::atomic<std::size_t> tail_{0};
};

}  // namespace sample

#endif  // SAMPLE_RING_BUFFER_H_
