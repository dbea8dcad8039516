"""Names of TensorFlow and TFDS that public programs use: each is here, or an error names what to write instead."""

from functools import reduce
from types import ModuleType

import pytest

import headrace as hr
from headrace.names import MissingNameError

USED = {
    "hr": """
        AUTOTUNE Dataset TFRecordDataset TextLineDataset FixedLengthRecordDataset Options INFINITE_CARDINALITY
        UNKNOWN_CARDINALITY Iterator DatasetSpec ThreadingOptions TensorSpec strings io image experimental keras
        utils py_function numpy_function function train lookup image_dataset_from_directory
        text_dataset_from_directory timeseries_dataset_from_array""",
    "hr.Dataset": """
        apply as_numpy_iterator batch bucket_by_sequence_length cache cardinality choose_from_datasets
        concatenate counter element_spec enumerate filter flat_map from_generator from_tensor_slices
        from_tensors get_single_element group_by_window ignore_errors interleave list_files load
        make_initializable_iterator make_one_shot_iterator map options output_shapes output_types padded_batch
        prefetch ragged_batch random range rebatch reduce rejection_resample repeat sample_from_datasets save
        scan shard shuffle skip snapshot sparse_batch take take_while unbatch unique window with_options zip""",
    "hr.experimental": """
        AUTOTUNE AutoShardPolicy Counter CsvDataset DistributeOptions OptimizationOptions RandomDataset
        SqlDataset TFRecordWriter assert_cardinality bucket_by_sequence_length cardinality choose_from_datasets
        copy_to_device dense_to_ragged_batch dense_to_sparse_batch enumerate_dataset from_list
        get_next_as_optional get_single_element get_structure group_by_reducer group_by_window ignore_errors
        index_table_from_dataset load make_batched_features_dataset make_csv_dataset make_saveable_from_iterator
        map_and_batch parallel_interleave parse_example_dataset prefetch_to_device rejection_resample
        sample_from_datasets save scan service shuffle_and_repeat snapshot take_while unbatch unique""",
    "hr.io": """
        FixedLenFeature FixedLenSequenceFeature RaggedFeature SparseFeature TFRecordOptions TFRecordWriter
        VarLenFeature decode_and_crop_jpeg decode_base64 decode_bmp decode_compressed decode_csv decode_gif
        decode_image decode_jpeg decode_json_example decode_png decode_proto decode_raw encode_base64
        encode_jpeg encode_png encode_proto extract_jpeg_shape gfile is_jpeg match_filenames_once matching_files
        parse_example parse_sequence_example parse_single_example parse_single_sequence_example parse_tensor
        read_file serialize_sparse serialize_tensor write_file""",
    "hr.io.gfile": "GFile copy exists glob isdir join listdir makedirs mkdir remove rename rmtree stat walk",
    "hr.image": """
        ResizeMethod adjust_brightness adjust_contrast adjust_gamma adjust_hue adjust_jpeg_quality
        adjust_saturation central_crop combined_non_max_suppression convert_image_dtype crop_and_resize
        crop_to_bounding_box decode_and_crop_jpeg decode_bmp decode_gif decode_image decode_jpeg decode_png
        draw_bounding_boxes encode_jpeg encode_png extract_glimpse extract_jpeg_shape extract_patches
        flip_left_right flip_up_down grayscale_to_rgb hsv_to_rgb image_gradients is_jpeg non_max_suppression
        pad_to_bounding_box per_image_standardization psnr random_brightness random_contrast random_crop
        random_flip_left_right random_flip_up_down random_hue random_jpeg_quality random_saturation resize
        resize_with_crop_or_pad resize_with_pad rgb_to_grayscale rgb_to_hsv rgb_to_yuv rot90
        sample_distorted_bounding_box sobel_edges ssim ssim_multiscale stateless_random_brightness
        stateless_random_contrast stateless_random_crop stateless_random_flip_left_right
        stateless_random_flip_up_down stateless_random_hue stateless_random_jpeg_quality
        stateless_random_saturation stateless_sample_distorted_bounding_box total_variation transpose yuv_to_rgb""",
    "hr.strings": """
        as_string bytes_split format join length lower ngrams reduce_join regex_full_match regex_replace split
        strip substr to_hash_bucket to_hash_bucket_fast to_hash_bucket_strong to_number unicode_decode
        unicode_encode unicode_split unicode_transcode upper""",
    "hr.tfds": """
        ImageFolder ReadConfig Split TranslateFolder as_dataframe as_numpy beam benchmark builder
        builder_from_directory core data_source dataset_builders decode disable_progress_bar download
        enable_progress_bar even_splits features folder_dataset is_dataset_on_gcs list_builders load
        show_examples split_for_jax_process testing transform typing visualization""",
    "hr.tfds.core": """
        BeamBasedBuilder BuilderConfig DatasetBuilder DatasetInfo GeneratorBasedBuilder Metadata MetadataDict
        ReadInstruction SplitGenerator SplitInfo Version lazy_imports""",
    "hr.tfds.decode": "PartialDecoding SkipDecoding make_decoder",
    "hr.tfds.download": "DownloadConfig GenerateMode",
    "hr.tfds.features": """
        Audio BBoxFeature ClassLabel Dataset FeaturesDict Image LabeledImage Scalar Sequence Tensor Text
        Translation Video""",
    "hr.feature_column": """
        bucketized_column categorical_column_with_hash_bucket categorical_column_with_identity
        categorical_column_with_vocabulary_file categorical_column_with_vocabulary_list crossed_column
        embedding_column indicator_column make_parse_example_spec numeric_column sequence_numeric_column
        shared_embeddings weighted_categorical_column""",
}
"""Written as `tf.data.` → `hr.`, `tfds` → `hr.tfds`, `tf.io`, `tf.image`, `tf.strings` → `hr.…` make them."""

NAMES = [(home, name) for home, names in USED.items() for name in names.split()]


@pytest.mark.parametrize(("home", "name"), NAMES, ids=[f"{home}.{name}" for home, name in NAMES])
def test_a_name_is_here_or_answered(home, name):
    where = reduce(getattr, home.split(".")[1:], hr)
    try:
        getattr(where, name)
    except MissingNameError as error:
        assert "shows what there is" not in str(error)


PUBLIC = {
    "hr": "tf.data",
    "hr.Dataset": "tf.data.Dataset",
    "hr.experimental": "tf.data.experimental",
    "hr.io": "tf.io",
    "hr.io.gfile": "tf.io.gfile",
    "hr.image": "tf.image",
    "hr.strings": "tf.strings",
    "hr.feature_column": "tf.feature_column",
    "hr.tfds": "tfds",
    "hr.tfds.core": "tfds.core",
    "hr.tfds.decode": "tfds.decode",
    "hr.tfds.download": "tfds.download",
    "hr.tfds.features": "tfds.features",
}
"""Modules whose public names all have an answer, each with the one that search and replace makes of it."""


@pytest.mark.tensorflow
@pytest.mark.parametrize("home", PUBLIC)
def test_every_public_name_of_a_module_is_here_or_answered(home):
    modules = {"tf": pytest.importorskip("tensorflow"), "tfds": pytest.importorskip("tensorflow_datasets")}
    root, *path = PUBLIC[home].split(".")
    theirs, where = reduce(getattr, path, modules[root]), reduce(getattr, home.split(".")[1:], hr)
    unanswered = []
    for name in dir(theirs):
        inner = isinstance(getattr(theirs, name), ModuleType) and root == "tfds"  # modules that programs do not name
        if name.startswith("_") or name == "annotations" or inner:
            continue
        try:
            getattr(where, name)
        except MissingNameError as error:
            if "shows what there is" in str(error):
                unanswered.append(name)
    assert unanswered == []
