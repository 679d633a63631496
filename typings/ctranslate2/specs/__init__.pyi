from ctranslate2.specs import common_spec as common_spec
from ctranslate2.specs import transformer_spec as transformer_spec
