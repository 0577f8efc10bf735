// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/data/directory.hpp>

#include <filesystem>
#include <string>
#include <vector>

#include <cuota/data/raw_source.hpp>

#include "support/catch.hpp"
#include "support/samples.hpp"
#include "support/temp_folder.hpp"
#include "support/thrown.hpp"

namespace {

using cuota::directory_of;
using support::gathered;
using support::mentions;

auto const letters = [](std::string const& path) {
    return cuota::raw_source{path, {.fields = {{"letter"}}}};
};

}  // namespace

TEST_CASE("directory_of opens the files of an ending in the order of their bytes", "[data][directory]") {
    support::temp_folder const folder;
    for (char const* name : {"b.raw", "10.raw", "9.raw", "B.raw", "\xc3\xa9.raw", "a.raw"})
        folder.write(name, std::string{name}.substr(0, 2));
    folder.write("a.txt", "no");
    folder.write("._a.raw", "no");
    folder.write(".raw", "no");
    folder.write("araw", "no");
    std::filesystem::create_directory(folder.path("folder.raw"));

    std::vector<std::string> opened;
    auto const all = directory_of(folder.path(), ".raw", [&](std::string const& path) {
        opened.push_back(std::filesystem::path{path}.filename());
        return letters(path);
    });
    CHECK(opened == std::vector<std::string>{"10.raw", "9.raw", "B.raw", "a.raw", "b.raw", "\xc3\xa9.raw"});
    CHECK(all.size() == 12);
    CHECK(all.name() == folder.path("10.raw") + " and 5 more");
    CHECK(gathered(all, support::first_samples(12))[0] == "109.B.a.b.\xc3\xa9");
}

TEST_CASE("directory_of asks a function for the names it wants", "[data][directory]") {
    support::temp_folder const folder;
    for (char const* name : {"train-1", "train-2", "test-1"}) folder.write(name, name);

    auto const train = directory_of(
        folder.path(), [](std::string const& name) { return name.starts_with("train"); }, letters);
    CHECK(gathered(train, support::first_samples(train.size()))[0] == "train-1train-2");
    CHECK(directory_of(folder.path() + '/', std::string{"1"}, letters).size() == 13);
}

TEST_CASE("directory_of says what is wrong with a folder or a file", "[data][directory]") {
    support::temp_folder const folder;
    auto const failure = [&](std::string const& path) {
        return support::thrown<cuota::data_error>([&] { (void)directory_of(path, ".raw", letters); });
    };

    CHECK(failure(folder.path()).file() == folder.path());
    CHECK(failure(folder.path()).why() == "the folder has no file that is asked for");
    auto const missing = failure(folder.path("missing"));
    CHECK(missing.file() == folder.path("missing"));
    CHECK(mentions(missing.why(), "cannot be listed: No such file or directory"));
    CHECK(mentions(failure(folder.write("file", "text")).why(), "cannot be listed: Not a directory"));

    std::filesystem::create_symlink("nowhere",
                                    folder.path("broken.raw"));  // a shard is missing: not to be passed over
    CHECK(failure(folder.path()).file() == folder.path("broken.raw"));
    CHECK(mentions(failure(folder.path()).why(), "cannot be opened"));
}

TEST_CASE("directory_of refuses files of different fields", "[data][directory]") {
    support::temp_folder const folder;
    folder.write("a", "aa");
    folder.write("b", "bb");

    auto const error = support::thrown<cuota::misuse>([&] {
        (void)directory_of(folder.path(), "", [](std::string const& path) {
            std::size_t const extent = path.ends_with('a') ? 1 : 2;
            return cuota::raw_source{path, {.fields = {{"x", cuota::element_type::u8, {extent}}}}};
        });
    });
    CHECK(mentions(error.what(), folder.path("b") + " has the fields x u8[2]; " + folder.path("a")));
}
