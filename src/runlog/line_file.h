// A LineFile is a file of the run to which whole lines are appended. A patient one keeps the lines
// that the disk does not take, warns once, and writes them before the next line that it takes: a
// run that outlives a full disk (checkpoint.on_save_error "continue") has every line in the end.
#pragma once

#include <filesystem>
#include <string>

namespace lmtrain {

class LineFile {
 public:
  // Does not touch the file yet. It need not be there, its folder must. `kept` are whole lines that
  // an earlier LineFile could not write; they are written before the next line.
  LineFile(std::filesystem::path path, bool patient, std::string kept = {});

  // Appends the line, which ends without a newline character. Throws Error(kIo) where the system
  // refuses; a patient file only where its folder is gone.
  void append(const std::string& line);
  // Returns when all lines are on disk, those that were kept among them. Throws Error(kIo).
  void sync();
  // Returns the lines that are not in the file yet.
  const std::string& kept() const { return kept_; }

 private:
  std::filesystem::path path_;
  bool patient_;
  std::string kept_;  // lines that are not in the file yet
};

}  // namespace lmtrain
