// Shared memory of the emulated kernels: poisoned before each block, its indices checked, and its
// accesses counted as a GPU would serve them.
//
// A GPU keeps shared memory in 32 banks of 4 bytes, neighbouring words in neighbouring banks. The
// lanes of a warp are served at once where no two of them want different words of one bank; else
// they are served in as many passes as one bank is asked for words (its ways). Lanes that want the
// same word share it. Words of 8 bytes are served to half a warp at a time, those of 16 to a
// quarter (CUDA C++ Programming Guide, "Shared Memory").
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <source_location>
#include <string>

namespace emulation {

enum class Access { kRead, kWrite };

// An index, and the place in the source where it is used.
struct Index {
  template <class I>
  Index(I i, std::source_location where = std::source_location::current())
      : value(static_cast<int64_t>(i)), line(where.line()), column(where.column()) {}
  int64_t value;
  unsigned line, column;
};

// An array of a kernel, known from now on: every byte of it is 0xFF when a block begins, which
// makes floating-point numbers NaN and integers -1, as nothing is there that could be read.
void poison_before_blocks(void* first, size_t bytes);
// Ends the test unless 0 <= i < count.
void check_index(const Index& i, size_t count);
// The current thread accesses the `bytes` at `offset` of an array.
void note_access(size_t offset, size_t bytes, const Index& where, Access access);

// Accesses of warps to shared memory.
struct BankUse {
  int64_t accesses = 0;   // of a warp at once
  int64_t conflicts = 0;  // passes beyond those that they would take without conflicts
  int most_ways = 0;      // of one bank, in one access
};
// Accesses of each kernel, by "FILE.cu:KERNEL". They are counted while one of these lives.
class CountBanks {
 public:
  CountBanks();
  ~CountBanks();
  CountBanks(const CountBanks&) = delete;
  CountBanks& operator=(const CountBanks&) = delete;
  static const std::map<std::string, BankUse>& of_kernels();
};

// The emulator's part: a kernel is launched; a thread of the warp that has the turn begins; the
// turn of this warp is over. Accesses of one turn, by the same line and column and the same number
// of times before in the thread's turn, are one of the warp.
void begin_kernel(const char* name);
void begin_thread(int lane);
void end_turn_of_warp();

// One number of shared memory.
template <class T>
class SharedElement {
 public:
  SharedElement(T* at, size_t offset, const Index& where)
      : at_(at), offset_(offset), where_(where) {}
  SharedElement(const SharedElement&) = default;
  operator T() const {
    note_access(offset_, sizeof(T), where_, Access::kRead);
    return *at_;
  }
  T operator=(T x) const {
    note_access(offset_, sizeof(T), where_, Access::kWrite);
    return *at_ = x;
  }
  T operator=(const SharedElement& x) const { return *this = static_cast<T>(x); }
  T operator+=(T x) const { return *this = static_cast<T>(*this) + x; }

 private:
  T* at_;
  size_t offset_;
  Index where_;
};

template <class T, size_t kCount>
class SharedRow {
 public:
  SharedRow(T* first, size_t offset) : first_(first), offset_(offset) {}
  SharedElement<T> operator[](const Index& i) const {
    check_index(i, kCount);
    const auto place = static_cast<size_t>(i.value);
    return {first_ + place, offset_ + place * sizeof(T), i};
  }

 private:
  T* first_;
  size_t offset_;
};

// A __shared__ array of a kernel: Shared<float[8]>, Shared<float[4][8]>.
template <class Array>
class Shared;

template <class T, size_t kCount>
class Shared<T[kCount]> {
 public:
  Shared() { poison_before_blocks(data_, sizeof data_); }
  SharedElement<T> operator[](const Index& i) { return SharedRow<T, kCount>(data_, 0)[i]; }

 private:
  alignas(16) T data_[kCount];
};

template <class T, size_t kRows, size_t kColumns>
class Shared<T[kRows][kColumns]> {
 public:
  Shared() { poison_before_blocks(data_, sizeof data_); }
  SharedRow<T, kColumns> operator[](const Index& row) {
    check_index(row, kRows);
    const auto place = static_cast<size_t>(row.value);
    return {data_[place], place * sizeof data_[0]};
  }

 private:
  alignas(16) T data_[kRows][kColumns];
};

}  // namespace emulation
