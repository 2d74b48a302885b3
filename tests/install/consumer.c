/* SPDX-License-Identifier: MIT */
/* An application in C outside the tree: compiled, linked and run against the installed files by check_install.py. */
#include <stdio.h>

#include "framelane/framelane.h"

int main(void) {
  framelane_producer* producer = NULL;
  if (framelane_producer_open("no such name", NULL, &producer) != FRAMELANE_INVALID_ARGUMENT) return 1;
  printf("%s\n", framelane_error_text());
  return 0;
}
