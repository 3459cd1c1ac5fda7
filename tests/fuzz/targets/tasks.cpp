// Tasks and requests that people write: tasks.json, then a file of records, parted by a line "%%".
#include "eval/task.h"
#include "fuzz/target.h"

namespace lmtrain::fuzzing {

LMTRAIN_FUZZ_TARGET(tasks) {
  const std::vector<std::string> parts = parts_of(input, 2);
  write_scratch("tasks.json", parts[0]);
  const std::filesystem::path records = write_scratch("records.jsonl", parts[1]);
  accepts([&] {
    const Task task = read_task_file(records);
    for (const TaskRecord& record : task.records) {
      require(record.gold >= 0 && record.gold < static_cast<int64_t>(record.options.size()),
              "no option is right");
      for (const int64_t shot : record.shots)
        require(shot >= 0 && shot < static_cast<int64_t>(task.records.size()),
                "a shot of no record");
    }
  });
  accepts([] { (void)read_tasks(scratch_folder()); });
}

}  // namespace lmtrain::fuzzing
