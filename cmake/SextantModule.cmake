# One folder = one static library = one line of the architecture. A dependency must already be
# a target, so the list of modules is a topological order and a cycle cannot be written down.
function(sextant_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "DEPS;LIBRARIES")
  string(REPLACE "/" "_" target ${name})
  set(dir ${CMAKE_CURRENT_SOURCE_DIR}/${name})
  file(GLOB sources CONFIGURE_DEPENDS ${dir}/*.cc)
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  file(GLOB headers CONFIGURE_DEPENDS ${dir}/*.h)

  # Include view: <build>/include/<target>/sextant/<name> is a link to the source folder. Only the
  # views of declared dependencies are on the include path, so anything else is not found.
  set(view ${PROJECT_BINARY_DIR}/include/${target})
  get_filename_component(parent ${view}/sextant/${name} DIRECTORY)
  file(MAKE_DIRECTORY ${parent})
  file(CREATE_LINK ${dir} ${view}/sextant/${name} SYMBOLIC)
  list(TRANSFORM headers REPLACE "^${dir}" "${view}/sextant/${name}" OUTPUT_VARIABLE viewed)

  add_library(sextant_${target} STATIC ${sources})
  target_sources(sextant_${target} PUBLIC FILE_SET HEADERS BASE_DIRS ${view} FILES ${viewed})
  set_target_properties(sextant_${target} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
  target_link_libraries(sextant_${target} PRIVATE sextant_warnings ${arg_LIBRARIES})
  foreach(dep IN LISTS arg_DEPS)
    string(REPLACE "/" "_" dep_target ${dep})
    if(NOT TARGET sextant_${dep_target})
      message(FATAL_ERROR "${name} may not depend on ${dep}: ${dep} is listed below it")
    endif()
    target_link_libraries(sextant_${target} PUBLIC sextant_${dep_target})
  endforeach()

  file(GLOB tests CONFIGURE_DEPENDS ${dir}/*_test.cc)
  if(tests AND SEXTANT_DEVELOPER)
    add_executable(${target}_tests ${tests})
    target_link_libraries(${target}_tests PRIVATE sextant_${target} sextant_warnings GTest::gtest_main)
    target_compile_definitions(${target}_tests PRIVATE SEXTANT_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    add_test(NAME ${target} COMMAND ${target}_tests)
  endif()
endfunction()
