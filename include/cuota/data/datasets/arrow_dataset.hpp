// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Arrow tables as datasets. Requires Apache Arrow's C++ library, and Parquet's for from_parquet. In no umbrella header.
#pragma once

#if !__has_include(<arrow/table.h>)
#error                                                                                                       \
    "cuota/data/datasets/arrow_dataset.hpp needs <arrow/table.h>: Apache Arrow's C++ library, https://arrow.apache.org/install"
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <arrow/chunked_array.h>
#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <arrow/status.h>
#include <arrow/table.h>
#include <arrow/type.h>
#if __has_include(<parquet/arrow/reader.h>)
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/exception.h>
#endif

#include <cuota/core/bytes.hpp>
#include <cuota/core/error.hpp>
#include <cuota/data/datasets/dataset.hpp>
#include <cuota/data/detail/datasets/arrow_column.hpp>
#include <cuota/data/detail/datasets/other_content.hpp>
#include <cuota/data/element.hpp>
#include <cuota/data/io/file.hpp>

namespace cuota::inline v0 {

/// How an Arrow file is loaded.
enum class arrow_access {
    mapped,  ///< uncompressed data is read from disk when gathered
    read,    ///< read when opened: for network shares, and files that may be truncated
};

/// Rows of an Arrow table as samples, its columns as fields: all, or those named, in the order of the names.
///
///     auto const from = cuota::arrow_dataset::from_ipc("train.arrow", {"tokens", "class"});
///
/// bool becomes a u8 of 0 or 1; integers and floats keep their size. A fixed_size_list of these, possibly nested, is an axis of the shape;
/// a list or large_list of any of these is a ragged field. Strings and binary are ragged bytes, fixed_size_binary an axis of bytes.
/// Throws:  usage_error for an invalid table of the program, data_error for one of a file, naming a column that does not exist, has an
///          unsupported type, a null, another length, or invalid offsets; usage_error for a column named twice.
/// Threads: as any dataset; the table's values must not change.
/// Cost:    copies share the table. A gather copies from Arrow's memory, consecutive samples at once, and allocates nothing. Opening
///          examines every offset and validity bit.
class arrow_dataset {
public:
    /// Uses the named columns, or all; `name` is for messages.
    explicit arrow_dataset(std::shared_ptr<arrow::Table const> table,
                           std::vector<std::string> const& columns = {}, std::string name = "Arrow table")
        : arrow_dataset{detail::arrow_origin{std::move(name), false}, std::move(table), columns} {}

    /// Opens an Arrow IPC file (Feather version 2), by default memory-mapped: do not modify it, because truncation terminates the program
    /// (SIGBUS). If compressed, all columns are decompressed, and the chosen ones stay in host memory. arrow_access::read reads the chosen
    /// columns into host memory, and closes the file.
    /// Throws: also data_error for a file that Arrow finds invalid (ValidateFull).
    [[nodiscard]] static arrow_dataset from_ipc(std::string path,
                                                std::vector<std::string> const& columns = {},
                                                arrow_access how = arrow_access::mapped) {
        detail::arrow_origin const from{std::move(path), true};
        return opened(from, [&]() -> arrow_dataset {
            std::shared_ptr<arrow::io::RandomAccessFile> file;
            if (how == arrow_access::read) file = from.expect(arrow::io::ReadableFile::Open(from.name));
            else file = from.expect(arrow::io::MemoryMappedFile::Open(from.name, arrow::io::FileMode::READ));
            auto reader = from.expect(arrow::ipc::RecordBatchFileReader::Open(file));
            std::vector<int> chosen = detail::chosen_columns(from, *reader->schema(), columns);
            arrow::FieldVector schema;
            for (int const column : chosen) schema.push_back(reader->schema()->field(column));
            if (how == arrow_access::read) {  // these columns only, in file order
                arrow::ipc::IpcReadOptions only = arrow::ipc::IpcReadOptions::Defaults();
                only.included_fields = chosen;
                std::sort(only.included_fields.begin(), only.included_fields.end());
                for (int& column : chosen)
                    column = static_cast<int>(
                        std::lower_bound(only.included_fields.begin(), only.included_fields.end(), column) -
                        only.included_fields.begin());
                reader = from.expect(arrow::ipc::RecordBatchFileReader::Open(file, only));
            }
            arrow::RecordBatchVector
                batches;  // mapped: reads all columns, then selects; included_fields would copy
            for (int i = 0; i != reader->num_record_batches(); ++i)
                batches.push_back(
                    from.expect(from.expect(reader->ReadRecordBatch(i))->SelectColumns(chosen)));
            return {from, from.expect(arrow::Table::FromRecordBatches(arrow::schema(schema), batches)),
                    columns};
        });
    }

#if __has_include(<parquet/arrow/reader.h>)
    /// Decodes a Parquet file into host memory, perhaps many times its size. Requires Parquet's headers.
    /// Throws: as from_ipc.
    [[nodiscard]] static arrow_dataset from_parquet(std::string path,
                                                    std::vector<std::string> const& columns = {}) {
        detail::arrow_origin const from{std::move(path), true};
        return opened(from, [&]() -> arrow_dataset { return decoded(from, columns); });
    }
#endif

    /// Shares the data; a move is a copy.
    arrow_dataset(arrow_dataset const&) noexcept = default;
    arrow_dataset& operator=(arrow_dataset const&) noexcept = default;  ///< shares the data
    ~arrow_dataset() = default;

    [[nodiscard]] std::uint64_t size() const noexcept { return state_->size; }               ///< rows
    [[nodiscard]] std::span<field const> fields() const noexcept { return state_->fields; }  ///< the columns
    /// Returns the path, or the constructor's argument.
    [[nodiscard]] std::string const& name() const noexcept { return state_->name; }

    /// Gets the rows per sample of field k.
    void row_counts(std::size_t k, std::span<std::uint64_t const> samples,
                    std::span<std::uint64_t> out) const {
        detail::check_row_counts(*this, k, samples, out);
        state_->columns[k].row_counts(samples, out);
    }
    /// Gathers samples.
    void gather(std::span<std::uint64_t const> samples, std::span<std::span<std::byte> const> out) const {
        if (!fits(samples, out)) check_gather(*this, samples, out);  // throws with the reason
        if (samples.empty()) return;
        for (std::size_t k = 0; k != out.size(); ++k) state_->columns[k].gather(samples, out[k].data());
    }

private:
    struct state {
        std::shared_ptr<arrow::Table const> table;  // owns the values
        std::string name;
        std::uint64_t size = 0;
        std::vector<field> fields{};
        std::vector<detail::arrow_column> columns{};
    };

    arrow_dataset(detail::arrow_origin const& from, std::shared_ptr<arrow::Table const> table,
                  std::vector<std::string> const& columns) {
        if (table == nullptr) from.refuse("the table is null");
        state all{.table = std::move(table), .name = from.name};
        all.size = static_cast<std::uint64_t>(all.table->num_rows());
        arrow::Schema const& schema = *all.table->schema();
        for (int const column : detail::chosen_columns(from, schema, columns)) {
            arrow::Field const& known = *schema.field(column);
            detail::arrow_layout layout = detail::layout_of(from, known);
            arrow::ChunkedArray const& values = *all.table->column(column);
            if (from.is_file) from.expect(values.ValidateFull(), known.name());  // not yet validated
            all.columns.emplace_back(from, layout, *known.type(), values);
            if (std::uint64_t const size = all.columns.back().size(); size != all.size)
                from.refuse(detail::column_text(known.name()) + " has " + std::to_string(size) +
                            " rows; the table has " + std::to_string(all.size));
            all.fields.push_back(std::move(layout.as));
        }
        state_ = std::make_shared<state const>(std::move(all));
    }

    // Names the file's actual kind if opening fails, as detail::parsed.
    template <class Open>
    [[nodiscard]] static arrow_dataset opened(detail::arrow_origin const& from, Open const& open) {
        try {
            return open();
        } catch (data_error const&) {
            std::optional<file> there;
            try {
                there.emplace(from.name);
            } catch (data_error const&) {}  // Arrow's own error is thrown below
            if (there) detail::refuse_other_content(*there);
            throw;
        }
    }

#if __has_include(<parquet/arrow/reader.h>)
    [[nodiscard]] static arrow_dataset decoded(detail::arrow_origin const& from,
                                               std::vector<std::string> const& columns) {
        try {
            parquet::arrow::FileReaderBuilder builder;
            from.expect(builder.OpenFile(from.name));
            std::unique_ptr<parquet::arrow::FileReader> reader;
            from.expect(builder.Build(&reader));
            reader->set_use_threads(true);
            std::shared_ptr<arrow::Schema> schema;
            from.expect(reader->GetSchema(&schema));
            std::vector<int> leaves;
            for (int const column : detail::chosen_columns(from, *schema, columns))
                add_leaves(reader->manifest().schema_fields[static_cast<std::size_t>(column)], leaves);
            return {from, from.expect(read_table(*reader, leaves)), columns};
        } catch (parquet::ParquetException const& error) { from.refuse(detail::shown(error.what(), 400)); }
    }
    static void add_leaves(parquet::arrow::SchemaField const& of, std::vector<int>& leaves) {
        if (of.is_leaf()) leaves.push_back(of.column_index);
        for (auto const& child : of.children) add_leaves(child, leaves);
    }
    template <class Reader>
    static arrow::Result<std::shared_ptr<arrow::Table>> read_table(Reader& from,
                                                                   std::vector<int> const& leaves) {
        if constexpr (requires { from.ReadTable(leaves); }) return from.ReadTable(leaves);
        else {  // before Arrow 24
            std::shared_ptr<arrow::Table> table;
            arrow::Status const status = from.ReadTable(leaves, &table);
            if (!status.ok()) return status;
            return table;
        }
    }
#endif

    [[nodiscard]] bool fits(std::span<std::uint64_t const> samples,
                            std::span<std::span<std::byte> const> out) const noexcept {
        for (std::uint64_t const sample : samples)
            if (sample >= state_->size) return false;
        bool const is_exact = out.size() == state_->columns.size();
        for (std::size_t k = 0; is_exact && k != out.size(); ++k) {
            detail::arrow_column const& column = state_->columns[k];
            if (checked_mul(column.bytes(), column.rows(samples)) != out[k].size()) return false;
        }
        return is_exact;
    }

    std::shared_ptr<state const> state_;
};
static_assert(dataset<arrow_dataset>);

}  // namespace cuota::inline v0
