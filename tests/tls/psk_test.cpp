// SPDX-License-Identifier: MIT
#include "transport/psk.hpp"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace framelane::transport {
namespace {

const std::string kHex32 = "00112233445566778899aabbccddeeffFFEEDDCCBBAA99887766554433221100";

class PskFile : public ::testing::Test {
 protected:
  PskFile() {
    std::string pattern = (std::filesystem::temp_directory_path() / "framelane-psk-XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr) << std::strerror(errno);
    folder_ = pattern;
    path_ = folder_ + "/lane.psk";
  }
  ~PskFile() override { std::filesystem::remove_all(folder_); }

  Result<Psk> read(const std::string& text, mode_t mode = 0600) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << text;
    EXPECT_EQ(chmod(path_.c_str(), mode), 0);
    return read_psk(path_);
  }

  /// Reads a file that can't be one; its error names the file and how to make one.
  Error error_of(const std::string& text, mode_t mode = 0600) { return checked(read(text, mode)); }

  Error checked(const Result<Psk>& psk) {
    EXPECT_FALSE(psk.has_value());
    if (psk) return {Code::kEndOfStream, ""};
    EXPECT_NE(psk.error().text.find("'" + path_ + "'"), std::string::npos) << psk.error().text;
    EXPECT_NE(psk.error().text.find("echo \"lane:$(openssl rand -hex 32)\" > '" + path_ + "'; chmod 600 '" + path_),
              std::string::npos)
        << psk.error().text;
    EXPECT_EQ(psk.error().text.find("00112233"), std::string::npos) << "the key in an error: " << psk.error().text;
    return psk.error();
  }

  void expect_invalid(const std::string& text, const std::string& part) {
    const Error error = error_of(text);
    EXPECT_EQ(error.code, Code::kInvalidArgument) << error.text;
    EXPECT_NE(error.text.find(part), std::string::npos) << error.text;
  }

  std::string folder_;
  std::string path_;
};

TEST_F(PskFile, HoldsAnIdentityAndAKey) {
  for (const std::string& text : {"lane:" + kHex32 + "\n", "lane:" + kHex32, "lane:" + kHex32 + " \t\r\n",
                                  "# made for cam0\n\n" + ("lane:" + kHex32) + "\n\n# the end\n"}) {
    const auto psk = read(text);
    ASSERT_TRUE(psk) << psk.error().text;
    EXPECT_EQ(psk->identity(), "lane");
    ASSERT_EQ(psk->key().size(), 32u);
    EXPECT_EQ(psk->key()[1], std::byte{0x11});
    EXPECT_EQ(psk->key()[16], std::byte{0xff});
  }
}

TEST_F(PskFile, KeysHave16To64Bytes) {
  EXPECT_TRUE(read("lane:" + kHex32.substr(0, 32)));
  EXPECT_TRUE(read("lane:" + kHex32 + kHex32));
  expect_invalid("lane:" + kHex32.substr(0, 30), "line 1: the key has 15 bytes, and may have 16 to 64");
  expect_invalid("lane:" + kHex32 + kHex32 + "00", "line 1: the key has 65 bytes");
  expect_invalid("lane:", "line 1: the key has 0 bytes");
}

TEST_F(PskFile, IdentitiesHave1To128PrintableBytes) {
  EXPECT_TRUE(read(std::string(128, 'x') + ":" + kHex32));
  EXPECT_TRUE(read("cam 0@host-1.example:" + kHex32));
  expect_invalid(":" + kHex32, "line 1: the identity has 0 bytes, and may have 1 to 128");
  expect_invalid(std::string(129, 'x') + ":" + kHex32, "line 1: the identity has 129 bytes");
  expect_invalid("l\xc3\xa4ne:" + kHex32, "the identity \"l\\xc3\\xa4ne\" isn't printable");
  expect_invalid("la\tne:" + kHex32, "isn't printable");
  expect_invalid(std::string("la\0ne:", 6) + kHex32, "isn't printable");
}

TEST_F(PskFile, NamesTheLineThatIsWrong) {
  expect_invalid("\n# key\nlane " + kHex32, "line 3: there is no colon");
  expect_invalid("lane:" + kHex32 + "0\n", "line 1: the key has an odd number");
  expect_invalid("lane:" + kHex32.substr(0, 34) + "0x\n",
                 "line 1: the key has something else than hexadecimal digits at "
                 "its digit 36");
  expect_invalid("lane:x0" + kHex32, "digits at its digit 1");
  expect_invalid("lane:other:" + kHex32, "hexadecimal digits at its digit 1");
  expect_invalid("lane:" + kHex32 + "\nlane:" + kHex32 + "\n", "line 2: there is a second key");
  expect_invalid("", "line 1: there is no line identity:hex");
  expect_invalid("# nothing\n\n", "there is no line identity:hex");
  expect_invalid("lane:" + kHex32 + "\n#" + std::string(5000, ' '), "larger than 4096 bytes");
}

TEST_F(PskFile, NoErrorShowsPartOfTheKey) {
  const auto psk = read("lane:" + kHex32 + "zz");
  ASSERT_FALSE(psk);
  EXPECT_EQ(psk.error().text.find(kHex32.substr(0, 6)), std::string::npos) << psk.error().text;
  const auto swapped = read(kHex32 + "\n");
  ASSERT_FALSE(swapped);
  EXPECT_EQ(swapped.error().text.find(kHex32.substr(0, 6)), std::string::npos) << swapped.error().text;
}

TEST_F(PskFile, MayBeOpenToNobodyElse) {
  EXPECT_TRUE(read("lane:" + kHex32, 0600));
  EXPECT_TRUE(read("lane:" + kHex32, 0400));
  for (const mode_t mode : {0640, 0604, 0620, 0602, 0610, 0601, 0666}) {
    const Error error = error_of("lane:" + kHex32, mode);
    EXPECT_EQ(error.code, Code::kPermission) << std::oct << mode;
    EXPECT_NE(error.text.find("is open to others than its owner: chmod 600 '"), std::string::npos) << error.text;
  }
}

TEST_F(PskFile, BelongsToUsOrToRoot) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  ASSERT_TRUE(read("lane:" + kHex32));
  ASSERT_EQ(chown(path_.c_str(), 12345, 12345), 0);
  const Error error = checked(read_psk(path_));
  EXPECT_EQ(error.code, Code::kPermission);
  EXPECT_NE(error.text.find("belongs to user 12345"), std::string::npos) << error.text;
}

TEST_F(PskFile, MustBeThereAndReadable) {
  const Error missing = checked(read_psk(path_));
  EXPECT_EQ(missing.code, Code::kNotFound) << missing.text;
  ASSERT_EQ(mkdir(path_.c_str(), 0700), 0);
  EXPECT_NE(checked(read_psk(path_)).text.find("no regular file"), std::string::npos);
  ASSERT_EQ(rmdir(path_.c_str()), 0);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_NE(checked(read_psk(path_)).text.find("no regular file"), std::string::npos);
}

TEST_F(PskFile, WithoutTheRightToReadItSaysSo) {
  ASSERT_TRUE(read("lane:" + kHex32, 0000) || geteuid() != 0);
  if (geteuid() == 0) {
    // A child that isn't root: the folder, too, must let it pass.
    ASSERT_EQ(chmod(folder_.c_str(), 0711), 0);
    const pid_t pid = fork();
    if (pid == 0) {
      if (setuid(12345) != 0) _exit(2);
      const auto psk = read_psk(path_);
      _exit(!psk && psk.error().code == Code::kPermission ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
  } else {
    EXPECT_EQ(checked(read_psk(path_)).code, Code::kPermission);
  }
}

TEST(Psk, WipesItsKey) {
  alignas(Psk) std::byte memory[sizeof(Psk)];
  const std::vector<std::byte> key(48, std::byte{0xa7});
  const auto copies = [&] {
    std::size_t count = 0;
    for (const volatile std::byte& byte : memory) count += byte == std::byte{0xa7} ? 1 : 0;
    return count;
  };
  auto* const psk = new (memory) Psk(*Psk::create("lane", key));
  EXPECT_GE(copies(), 48u);
  psk->~Psk();
  EXPECT_LT(copies(), 48u);
}

}  // namespace
}  // namespace framelane::transport
