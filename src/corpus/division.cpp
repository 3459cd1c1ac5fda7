#include "corpus/division.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/error.h"
#include "base/files/examine.h"
#include "base/random_id.h"
#include "base/text.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// A file in the folder of the cache by which others know it.
class Mark {
 public:
  explicit Mark(fs::path path) : path_(std::move(path)) { FileWriter(path_).finish(); }
  ~Mark() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;

 private:
  fs::path path_;
};

std::vector<Json> exchange(Peers& peers, const Json& mine) {
  std::vector<Json> all;
  for (const std::string& text : peers.exchange(mine.dump())) all.push_back(Json::parse(text));
  return all;
}

}  // namespace

PreparationDivision::PreparationDivision(Peers& peers, const Cache& cache, const std::string& key,
                                         bool is_ready)
    : peers_(peers) {
  const std::string name = is_ready ? "" : random_id();
  std::optional<Mark> mark;
  if (!is_ready) {
    lock_ = cache.try_lock("index", key);
    mark.emplace(cache.mark_path(name));
  }
  std::vector<std::string> names;
  for (const Json& one :
       lmtrain::exchange(peers_, {{"mark", name}, {"locked", lock_.has_value()}, {"key", key}})) {
    names.push_back(one.at("mark").get<std::string>());
    keys_.push_back(one.at("key").get<std::string>());
    lack_.push_back(!names.back().empty());
    locked_.push_back(one.at("locked").get<bool>());
  }
  is_needed_ = std::find(lack_.begin(), lack_.end(), true) != lack_.end();
  if (!is_needed_) return;
  std::vector<bool> sees;
  sees.reserve(names.size());
  for (const std::string& other : names)
    sees.push_back(!is_ready && !other.empty() && is_there(cache.mark_path(other)));
  std::vector<std::vector<bool>> sights;
  for (const Json& one : lmtrain::exchange(peers_, sees))
    sights.push_back(one.get<std::vector<bool>>());
  turns_ = with_same_folder(sights);
  keeps_ = lock_ && turns_.front() == peers_.rank();
  if (!keeps_) unlock();
}

// Those that see the mark of each other, or are seen.
std::vector<int> PreparationDivision::with_same_folder(
    const std::vector<std::vector<bool>>& sights) const {
  std::vector<int> found;
  if (!lack_[static_cast<size_t>(peers_.rank())]) return found;
  found.push_back(peers_.rank());
  for (size_t i = 0; i < found.size(); ++i) {
    const auto known = static_cast<size_t>(found[i]);
    for (size_t other = 0; other < sights.size(); ++other) {
      const bool is_known =
          std::find(found.begin(), found.end(), static_cast<int>(other)) != found.end();
      if (!is_known && (sights[known][other] || sights[other][known]))
        found.push_back(static_cast<int>(other));
    }
  }
  // Who has the lock goes first.
  std::sort(found.begin(), found.end(), [&](int a, int b) {
    return std::tuple(!locked_[static_cast<size_t>(a)], a) <
           std::tuple(!locked_[static_cast<size_t>(b)], b);
  });
  return found;
}

void PreparationDivision::agree(const std::string& fingerprint, int threads,
                                const TokensPlace* place) {
  Json mine = {{"fingerprint", fingerprint}, {"threads", threads}};
  if (place != nullptr) {
    mine["start"] = {place->in_eval, place->next.file, place->next.position, place->content.low,
                     place->content.high};
  }
  const std::vector<Json> all = lmtrain::exchange(peers_, mine);
  const auto order = [](const TokensPlace& one) {
    return std::tuple(one.in_eval, one.next.file, one.next.position);
  };
  for (size_t rank = 0; rank < all.size(); ++rank) {
    const Json& one = all[rank];
    const auto print = one.at("fingerprint").get<std::string>();
    const auto first = all[0].at("fingerprint").get<std::string>();
    if (print != first) {
      throw Error(ErrorKind::kData,
                  str(peers_.name_of(static_cast<int>(rank)), " has found other data than ",
                      peers_.name_of(0), " (fingerprint ", print, ", not ", first,
                      "): data.train, data.eval and tokenizer.model must hold the same files on "
                      "every machine"));
    }
    members_.push_back({one.at("threads").get<int>(), one.contains("start")});
    if (!one.contains("start")) continue;
    TokensPlace at;
    const Json& start = one.at("start");
    at.in_eval = start.at(0).get<bool>();
    at.next = {start.at(1).get<size_t>(), start.at(2).get<int64_t>()};
    at.content = {start.at(3).get<uint64_t>(), start.at(4).get<uint64_t>()};
    if (!start_ || order(at) < order(*start_)) start_ = at;
  }
}

void PreparationDivision::await_turn() {
  for (const int rank : turns_) {
    if (rank == peers_.rank()) return;
    if (waits_for(peers_.rank(), rank)) (void)peers_.receive(rank);
  }
}

void PreparationDivision::pass_turn() {
  const auto self = std::find(turns_.begin(), turns_.end(), peers_.rank());
  const auto done = std::make_shared<const std::string>("done");
  for (auto later = self == turns_.end() ? self : self + 1; later != turns_.end(); ++later)
    if (waits_for(*later, peers_.rank())) peers_.send(*later, done);
}

bool PreparationDivision::waits_for(int later, int earlier) const {
  return earlier == turns_.front() ||
         keys_[static_cast<size_t>(earlier)] == keys_[static_cast<size_t>(later)];
}

}  // namespace lmtrain
