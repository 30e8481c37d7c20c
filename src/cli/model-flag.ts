/** Flags for the prices and abilities of a model. */

export const priceFlags = {
  inputUsdPerMillion: { flag: '--input-price <usd>', help: 'price per million prompt tokens' },
  cachedUsdPerMillion: {
    flag: '--cached-price <usd>',
    help: 'price per million cached prompt tokens (default: same as input)',
  },
  outputUsdPerMillion: { flag: '--output-price <usd>', help: 'price per million output tokens' },
  pixelStepUsdPerMillion: { flag: '--pixel-step-price <usd>', help: 'images: price per megapixel per step' },
  characterUsdPerMillion: { flag: '--character-price <usd>', help: 'speech: price per million characters' },
} as const

export const factFlags = {
  contextTokens: { flag: '--context <tokens>', help: 'context length: prompt and answer together' },
  maxOutputTokens: { flag: '--max-output <tokens>', help: 'longest answer' },
  supportsTools: { flag: '--tools', help: 'it can call tools' },
  supportsImageInput: { flag: '--image-input', help: 'it accepts images as input' },
} as const
