/** Flags for the prices and abilities of a model. */

export const priceFlags = {
  inputUsdPerMillion: '--input-price <usd>  price per million prompt tokens',
  cachedUsdPerMillion: '--cached-price <usd>  price per million cached prompt tokens (default: same as input)',
  outputUsdPerMillion: '--output-price <usd>  price per million output tokens',
  pixelStepUsdPerMillion: '--pixel-step-price <usd>  images: price per megapixel per step',
  characterUsdPerMillion: '--character-price <usd>  speech: price per million characters',
  batchDiscountPercent: '--batch-discount <percent>  what batches cost less (default: 50)',
  soundMsUsdPerMillion: '--sound-price <usd>  transcription: price per 1,000 seconds of sound',
} as const

export const factFlags = {
  contextTokens: '--context <tokens>  context length: prompt and answer together',
  maxOutputTokens: '--max-output <tokens>  longest answer',
  supportsTools: '--tools  it can call tools',
  supportsImageInput: '--image-input  it accepts images as input',
} as const
