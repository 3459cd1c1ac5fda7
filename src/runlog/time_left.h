// Measures how long the parts of a run took, and estimates from that how long the rest will take.
// Nothing in a run depends on it. All times are in seconds.
//
// A batch is expected to take the mean of those of its length, the latest kMemory of them having
// most of the weight. The first batch of a length, and the first evaluation and save, also set
// things up, so they count only until there is a second one. The time of a length that did not come
// yet is that of the nearest one that did, in proportion to the FLOPs of a batch. Before the first
// evaluation its time follows from its FLOPs in the same way.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

namespace lmtrain {

// Keeps the mean of times, with more weight on the latest.
class MeanTime {
 public:
  void add(double seconds);
  bool known() const { return count_ > 0; }
  double seconds() const { return mean_; }
  double sum() const { return sum_; }

 private:
  static constexpr int64_t kMemory = 64;
  int64_t count_ = 0;
  double mean_ = 0;
  double sum_ = 0;
};

class TimeLeft {
 public:
  // `step_flops` gives the FLOPs of a step whose rows have this length, `evaluation_flops` are
  // those of an evaluation; only their ratios count.
  TimeLeft(std::function<double(int64_t length)> step_flops, double evaluation_flops);

  void add_batch(int64_t length, double seconds);
  void add_evaluation(double seconds) { evaluation_.add(seconds); }
  void add_save(double seconds) { save_.add(seconds); }  // for which the loop was held up
  // Sets how long the last checkpoint was written beside the loop.
  void set_writing(double seconds) { writing_ = seconds; }

  // These two are zero while nothing is known.
  double batch_seconds(int64_t length) const;
  double evaluation_seconds() const;

  // Tells what is still to come: seconds of training, and the numbers of evaluations and saves.
  struct Ahead {
    double training = 0;  // seconds of its batches
    double evaluations = 0;
    double saves = 0;  // the last one is waited for until it is written
  };
  // Returns the seconds that this will take, the writing of the last checkpoint included.
  double seconds(const Ahead& ahead) const;

  // These three return the seconds spent until now.
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
