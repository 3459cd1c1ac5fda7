// Measures how long the parts of a run took, and estimates from that how long the rest will take.
// It decides nothing of a run.
//
// A batch of a length takes the mean of those of this length, the latest kMemory of them having
// most of the weight. The first one of a length, and the first evaluation and save, also set things
// up: they count only until there is a second. The time of a length that did not come yet is that
// of the nearest one that did, in proportion to the FLOPs of a batch; the time of an evaluation,
// before the first, follows from its FLOPs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

namespace lmtrain {

// The mean of times, with more weight on the latest.
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
  // FLOPs of a step whose rows have this length, and of an evaluation; only their ratios count.
  TimeLeft(std::function<double(int64_t length)> step_flops, double evaluation_flops);

  void add_batch(int64_t length, double seconds);
  void add_evaluation(double seconds) { evaluation_.add(seconds); }
  void add_save(double seconds) { save_.add(seconds); }  // of the loop's time
  // The time to write what a save took beside the loop.
  void set_writing(double seconds) { writing_ = seconds; }

  // Zero while nothing is known.
  double batch_seconds(int64_t length) const;
  double evaluation_seconds() const;

  struct Ahead {
    double training = 0;  // seconds of its batches
    double evaluations = 0;
    double saves = 0;  // the last one is waited for
  };
  double seconds(const Ahead& ahead) const;

  // Spent until now.
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
