// Adds up the time that the parts of a run took, and estimates the time of the rest. Nothing in a
// run depends on it. All times are in seconds.
//
// A batch is expected to take the mean time of earlier batches of its length; the latest kMemory
// batches have most of the weight. The first batch of a length sets things up, so it counts only
// until there is a second batch; so do the first evaluation and the first save. A length without a
// batch takes the time of the nearest length, scaled by FLOPs. Before the first evaluation its time
// follows from time and FLOPs of the longest batches.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

namespace lmtrain {

// Keeps the mean and the sum of times. Later times have more weight in the mean.
class MeanTime {
 public:
  void add(double seconds);
  bool known() const { return count_ > 0; }
  // Both are 0 before the first time. In seconds() the latest kMemory times have most of the
  // weight. In steady_seconds() the i-th time has the weight i, so it wavers less and adapts more
  // slowly.
  double seconds() const { return mean_; }
  double steady_seconds() const { return steady_; }
  double sum() const { return sum_; }

 private:
  static constexpr int64_t kMemory = 64;
  int64_t count_ = 0;
  double mean_ = 0;
  double steady_ = 0;
  double sum_ = 0;
};

class TimeLeft {
 public:
  // `step_flops` returns the FLOPs of a step whose rows have a given length. `evaluation_flops` is
  // the FLOPs of one evaluation. Only the ratios of FLOPs matter.
  TimeLeft(std::function<double(int64_t length)> step_flops, double evaluation_flops);

  void add_batch(int64_t length, double seconds);
  void add_evaluation(double seconds) { evaluation_.add(seconds); }
  void add_save(double seconds) { save_.add(seconds); }  // while the training loop waited
  // Sets the seconds in which a thread has written the last checkpoint, beside the training loop.
  void set_writing(double seconds) { writing_ = seconds; }

  // Returns the seconds to expect of a batch; 0 before the first add_batch(). `steady`: by
  // MeanTime::steady_seconds().
  double batch_seconds(int64_t length, bool steady = false) const;
  // Returns the seconds to expect of an evaluation; 0 before the first add_batch() and the first
  // add_evaluation().
  double evaluation_seconds() const;

  // Says what is still to come.
  struct Ahead {
    double training = 0;     // seconds of its batches
    double evaluations = 0;  // their number
    double saves = 0;        // their number; the run waits until the last one is written
  };
  // Returns the seconds that `ahead` will take, the writing of the last checkpoint included.
  double seconds(const Ahead& ahead) const;

  // These three return the seconds spent so far.
  double training_seconds() const;
  double evaluating_seconds() const { return evaluation_.sum(); }
  double saving_seconds() const { return save_.sum(); }

 private:
  std::function<double(int64_t)> step_flops_;
  double evaluation_flops_;
  std::map<int64_t, MeanTime> batches_;  // by length
  MeanTime evaluation_, save_;
  double writing_ = 0;
};

}  // namespace lmtrain
