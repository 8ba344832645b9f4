# Warnings for our own code. They are errors in the developer presets only, so that a newer
# compiler never breaks a user's build.
add_library(sextant_warnings INTERFACE)
target_compile_options(sextant_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion
                                                  -Wno-sign-conversion -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(sextant_warnings INTERFACE -Wno-restrict)  # GCC 12 warns falsely inside std::string (its bug 105651)
endif()
if(SEXTANT_WERROR)
  target_compile_options(sextant_warnings INTERFACE -Werror)
endif()
