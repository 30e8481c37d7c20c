/**
 * The sheet of the model card, 24 prompts with four seeds each, over the API of a running Berth:
 * `BERTH_KEY=… npx tsx models/pictogram/sheet.ts`.
 */
import sharp, { type OverlayOptions } from 'sharp'
import { paint } from './ask.ts'

const PROMPTS = [
  'a red apple',
  'a cat',
  'a house on grass',
  'three yellow stars on dark blue',
  'a red apple beside a blue cup',
  'a purple car',
  'a rocket in space',
  'a sailboat on the sea',
  'a smiley',
  'a green dog on a yellow background',
  'a pink elephant',
  'two cherries',
  'a guitar',
  'a tree above a fish',
  'a robot in a blue circle',
  'a blue butterfly',
  'four red hearts',
  'a snowman in the snow',
  'a burger and fries',
  'a golden crown on purple',
  'a small yellow duck on water',
  'an umbrella in the rain',
  'a computer on a table',
  'a banana',
]
const SEEDS = [1, 2, 3, 4]
const STEPS = 30
const SIDE = 128
const GAP = 4
const CAPTION = 22
const PROMPTS_IN_ROW = 3

const width = PROMPTS_IN_ROW * (SEEDS.length * (SIDE + GAP) + 4 * GAP)
const tiles: OverlayOptions[] = []
for (const [i, prompt] of PROMPTS.entries()) {
  const left = (i % PROMPTS_IN_ROW) * (SEEDS.length * (SIDE + GAP) + 4 * GAP)
  const top = Math.floor(i / PROMPTS_IN_ROW) * (SIDE + CAPTION + 2 * GAP)
  const style = 'font-family="sans-serif" font-size="14" fill="#333"'
  const text = `<svg width="${SEEDS.length * SIDE}" height="${CAPTION}"><text x="2" y="16" ${style}>${prompt}</text></svg>`
  tiles.push({ input: Buffer.from(text), left, top })
  for (const [k, seed] of SEEDS.entries()) {
    const png = await paint({ prompt, seed, steps: STEPS })
    const input = await sharp(png).resize(SIDE, SIDE).png().toBuffer()
    tiles.push({ input, left: left + k * (SIDE + GAP), top: top + CAPTION })
  }
  process.stdout.write(`${prompt}\n`)
}
const height = Math.ceil(PROMPTS.length / PROMPTS_IN_ROW) * (SIDE + CAPTION + 2 * GAP)
await sharp({ create: { width, height, channels: 3, background: '#f2f2f2' } })
  .composite(tiles)
  .png({ palette: true, compressionLevel: 9 })
  .toFile(new URL('sheet.png', import.meta.url).pathname)
