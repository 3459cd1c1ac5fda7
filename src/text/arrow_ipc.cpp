// open_arrow of readers.h: Arrow's IPC format, batch of rows by batch, both as a stream (what
// Hugging Face's `datasets` writes) and as a file with a footer (Feather 2).
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>

#include <array>
#include <cstring>

#include "base/text.h"
#include "text/arrow_column.h"
#include "text/arrow_file.h"
#include "text/readers.h"

namespace lmtrain {
namespace {

namespace fs = std::filesystem;
using Batch = std::shared_ptr<arrow::RecordBatch>;

template <class Value>
Value checked(arrow::Result<Value> result) {
  if (!result.ok()) throw std::runtime_error(result.status().message());
  return *std::move(result);
}

arrow::ipc::IpcReadOptions read_options(TableMemory& memory) {
  arrow::ipc::IpcReadOptions options;
  options.use_threads = false;
  options.memory_pool = &memory;
  return options;
}

// The batches of a file, whichever of the two formats it has.
class Batches {
 public:
  virtual ~Batches() = default;
  virtual std::shared_ptr<arrow::Schema> schema() const = 0;
  // From now on a batch holds this column alone.
  virtual void select(int column) = 0;
  virtual Batch next() = 0;  // null at the end
};

// The part that both have: a reader that is opened again where it is to read one column alone.
template <class Reader>
class BatchesOf : public Batches {
 public:
  BatchesOf(std::shared_ptr<arrow::io::RandomAccessFile> file, TableMemory& memory)
      : file_(std::move(file)), memory_(memory) {
    open(read_options(memory_));
  }
  std::shared_ptr<arrow::Schema> schema() const override { return reader_->schema(); }
  void select(int column) override {
    arrow::ipc::IpcReadOptions options = read_options(memory_);
    options.included_fields = {column};
    open(options);
  }

 protected:
  arrow::io::RandomAccessFile& file() const { return *file_; }
  Reader& reader() const { return *reader_; }

 private:
  void open(const arrow::ipc::IpcReadOptions& options) {
    // A stream begins where the file stands.
    if (const arrow::Status status = file_->Seek(0); !status.ok())
      throw std::runtime_error(status.message());
    reader_ = checked(Reader::Open(file_.get(), options));
  }
  std::shared_ptr<arrow::io::RandomAccessFile> file_;
  TableMemory& memory_;
  std::shared_ptr<Reader> reader_;
};

class FileBatches : public BatchesOf<arrow::ipc::RecordBatchFileReader> {
 public:
  using BatchesOf::BatchesOf;
  Batch next() override {
    if (next_ == reader().num_record_batches()) return nullptr;
    return checked(reader().ReadRecordBatch(next_++));
  }

 private:
  int next_ = 0;
};

class StreamBatches : public BatchesOf<arrow::ipc::RecordBatchStreamReader> {
 public:
  using BatchesOf::BatchesOf;
  Batch next() override {
    Batch batch;
    const arrow::Status status = reader().ReadNext(&batch);
    if (!status.ok()) throw std::runtime_error(status.message());
    if (batch == nullptr) require_end();
    return batch;
  }

 private:
  // A stream that was cut between two batches reads like a shorter one, and what follows an end is
  // not read: only this mark, at the very end of the file, says that all was there.
  void require_end() const {
    constexpr std::array<unsigned char, 8> kEnd = {0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 0};
    const int64_t size = checked(file().GetSize());
    const int64_t read = checked(file().Tell());
    if (read < size) throw std::runtime_error(str("the stream ends at byte ", read, " of ", size));
    std::array<unsigned char, 8> end{};
    const int64_t got = checked(file().ReadAt(size - 8, 8, end.data()));
    if (got != 8 || end != kEnd)
      throw std::runtime_error(str("no end-of-stream mark at the end, byte ", size));
  }
};

class ArrowReader : public DocumentReader {
 public:
  ArrowReader(const fs::path& path, const std::string& column, int64_t first, uint64_t max_document)
      : path_(path), first_(first), memory_(max_document), file_(open_arrow_file(path)) {
    guarded([&] {
      std::array<char, 6> begin{};
      const int64_t got = checked(file_->ReadAt(0, begin.size(), begin.data()));
      if (got == 6 && std::memcmp(begin.data(), "ARROW1", begin.size()) == 0) {
        batches_ = std::make_unique<FileBatches>(file_, memory_);
      } else {
        batches_ = std::make_unique<StreamBatches>(file_, memory_);
      }
      column_ = find_text_column(*batches_->schema(), column, path);
      batches_->select(column_[0]);
    });
  }

  bool next(Document& document) override {
    bool found = false;
    guarded([&] { found = find_next(document); });
    return found;
  }
  uint64_t bytes_read() const override {
    const auto offset = file_->Tell();
    return offset.ok() ? static_cast<uint64_t>(*offset) : 0;
  }

 private:
  template <class Action>
  void guarded(const Action& action) const {
    read_arrow(path_, memory_, action, [this] { return first_row_ + row_; });
  }

  bool find_next(Document& document) {
    for (;;) {
      while (text_ && row_ < text_->size()) {
        const std::optional<std::string_view> text = text_->value(row_);
        const int64_t row = first_row_ + row_++;
        if (text) {
          document = {*text, row};
          return true;
        }
        ++skipped_.nulls;
      }
      if (!open_batch()) return false;
    }
  }

  // Makes text_ that of the next batch; none for a batch that is not needed.
  bool open_batch() {
    first_row_ += batch_rows_;
    row_ = batch_rows_ = 0;
    text_.reset();
    const Batch batch = batches_->next();
    if (batch == nullptr) return false;
    batch_rows_ = batch->num_rows();
    if (first_row_ + batch_rows_ <= first_) return true;
    text_.emplace(TextColumn::of(batch->column(0), column_));
    if (text_->size() != batch_rows_) throw std::runtime_error("a column of another length");
    return true;
  }

  fs::path path_;
  int64_t first_;
  TableMemory memory_;
  std::shared_ptr<arrow::io::RandomAccessFile> file_;
  std::unique_ptr<Batches> batches_;
  ColumnPath column_;
  std::optional<TextColumn> text_;  // of the batch
  int64_t batch_rows_ = 0;
  int64_t first_row_ = 0;  // of the batch
  int64_t row_ = 0;        // in the batch
};

}  // namespace

std::unique_ptr<DocumentReader> open_arrow(const fs::path& path, const std::string& column,
                                           int64_t first, uint64_t max_document) {
  return std::make_unique<ArrowReader>(path, column, first, max_document);
}

}  // namespace lmtrain
