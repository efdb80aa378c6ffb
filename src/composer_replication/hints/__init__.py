from .templates import HINT_TEMPLATES, HintContext, dispatch, register
