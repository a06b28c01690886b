// Runs every registered test.
#include "check.h"

int main() {
  for (const auto& [name, body] : all_tests()) {
    printf("%s\n", name);
    fflush(stdout);
    body();
  }
  printf("%zu tests passed\n", all_tests().size());
  return 0;
}
