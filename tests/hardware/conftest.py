from tests.stubs import nvml_library, nvml_stub

__all__ = ["nvml_library", "nvml_stub"]
