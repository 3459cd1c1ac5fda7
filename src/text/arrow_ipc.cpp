// open_arrow of readers.h and open_arrow_ids of id_rows.h: Arrow's IPC format, batch of rows by
// batch, both as a stream (what Hugging Face's `datasets` writes) and as a file with a footer
// (Feather 2).
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
  // Makes the next batches hold only these columns, in the order of the schema.
  virtual void select(const std::vector<int>& columns) = 0;
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
  void select(const std::vector<int>& columns) override {
    arrow::ipc::IpcReadOptions options = read_options(memory_);
    options.included_fields = columns;
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

std::unique_ptr<Batches> open_batches(const std::shared_ptr<arrow::io::RandomAccessFile>& file,
                                      TableMemory& memory) {
  std::array<char, 6> begin{};
  const int64_t got = checked(file->ReadAt(0, begin.size(), begin.data()));
  if (got == 6 && std::memcmp(begin.data(), "ARROW1", begin.size()) == 0)
    return std::make_unique<FileBatches>(file, memory);
  return std::make_unique<StreamBatches>(file, memory);
}

uint64_t offset_in(const arrow::io::RandomAccessFile& file) {
  const auto offset = file.Tell();
  return offset.ok() ? static_cast<uint64_t>(*offset) : 0;
}

class ArrowReader : public DocumentReader {
 public:
  ArrowReader(const fs::path& path, const std::string& column, int64_t first, uint64_t max_document)
      : path_(path), first_(first), memory_(max_document), file_(open_arrow_file(path)) {
    guarded([&] {
      batches_ = open_batches(file_, memory_);
      column_ = find_text_column(*batches_->schema(), column, path);
      batches_->select({column_[0]});
    });
  }

  bool next(Document& document) override {
    bool found = false;
    guarded([&] { found = find_next(document); });
    return found;
  }
  uint64_t bytes_read() const override { return offset_in(*file_); }

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

  // Sets text_ to the column of the next batch, or to null for a batch that is not needed.
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

IdColumns id_columns_of(const arrow::Schema& schema, const std::string& text_field) {
  IdColumns columns = id_columns(schema.field_names(), text_field, [&](const std::string& name) {
    const std::vector<int> found = schema.GetAllFieldIndices(name);
    return found.size() == 1 && IdColumn::is_ids(*schema.field(found[0])->type());
  });
  columns.has_text = has_text_column(schema, text_field);
  return columns;
}

class ArrowIdRows : public IdRows {
 public:
  // Without `reads` it only finds the columns.
  ArrowIdRows(const fs::path& path, const std::string& text_field, uint64_t max_document,
              bool reads)
      : path_(path), memory_(max_document), file_(open_arrow_file(path)) {
    guarded([&] {
      batches_ = open_batches(file_, memory_);
      const std::shared_ptr<arrow::Schema> schema = batches_->schema();
      columns_ = id_columns_of(*schema, text_field);
      if (!reads) return;
      if (columns_.ids.empty()) fail_no_ids(path, text_field, schema->field_names());
      std::vector<int> selected = {schema->GetFieldIndex(columns_.ids)};
      if (columns_.has_mask) selected.push_back(schema->GetFieldIndex(kMaskColumn));
      if (columns_.has_labels) selected.push_back(schema->GetFieldIndex(kLabelsColumn));
      batches_->select(selected);
    });
  }

  bool next(IdRow& row) override {
    bool found = false;
    guarded([&] { found = find_next(row); });
    return found;
  }
  uint64_t bytes_read() const override { return offset_in(*file_); }

 private:
  template <class Action>
  void guarded(const Action& action) const {
    read_arrow(path_, memory_, action, [this] { return first_row_ + row_; });
  }
  bool find_next(IdRow& row) {
    while (row_ == batch_rows_) {
      first_row_ += batch_rows_;
      row_ = batch_rows_ = 0;
      const Batch batch = batches_->next();
      if (batch == nullptr) return false;
      batch_rows_ = batch->num_rows();
      take(*batch, columns_.ids, ids_);
      if (columns_.has_mask) take(*batch, kMaskColumn, mask_);
      if (columns_.has_labels) take(*batch, kLabelsColumn, labels_);
    }
    row.number = first_row_ + row_;
    ids_->read(row_, row.ids);
    if (mask_) mask_->read(row_, row.mask);
    if (labels_) labels_->read(row_, row.labels);
    ++row_;
    return true;
  }
  void take(const arrow::RecordBatch& batch, const std::string& name,
            std::optional<IdColumn>& column) const {
    column.emplace(batch.GetColumnByName(name));
    if (column->size() != batch_rows_) throw std::runtime_error("a column of another length");
  }

  fs::path path_;
  TableMemory memory_;
  std::shared_ptr<arrow::io::RandomAccessFile> file_;
  std::unique_ptr<Batches> batches_;
  std::optional<IdColumn> ids_, mask_, labels_;  // of the batch
  int64_t batch_rows_ = 0;
  int64_t first_row_ = 0;  // of the batch
  int64_t row_ = 0;        // in the batch
};

}  // namespace

std::unique_ptr<DocumentReader> open_arrow(const fs::path& path, const std::string& column,
                                           int64_t first, uint64_t max_document) {
  return std::make_unique<ArrowReader>(path, column, first, max_document);
}

IdColumns find_arrow_ids(const fs::path& path, const std::string& text_field) {
  return ArrowIdRows(path, text_field, 0, false).columns();
}

std::unique_ptr<IdRows> open_arrow_ids(const fs::path& path, const std::string& text_field,
                                       uint64_t max_document) {
  return std::make_unique<ArrowIdRows>(path, text_field, max_document, true);
}

}  // namespace lmtrain
