// torchair's _abi_compat_ge_apis.so is built with the old libstdc++ string: this one returns it by value.
#include <string>
extern "C" const char* air_sim_ge_error();
namespace ge { std::string GEGetErrorMsg() { return air_sim_ge_error(); } }
