"""The place of `experimental.patch_for_hcom_allreduce`; the converters of AIR are in air_geir."""
