/**
 * Chooses what the evaluation asks for, from `data/sprites.json`, and writes `prompts.json`: names that were trained,
 * pairs of a colour and a name that were not, synonyms that were not, names that were not, and two things side by
 * side. Each comes with nine other names that the judge has to tell it from. Nothing here is random: the order is that
 * of hashes, so a second run chooses the same.
 */
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'

const EACH = 40
const SIDE_BY_SIDE = 20
const OTHERS = 9
/** As in `train/scenes.py`. */
const HELD_OUT_PERCENT = 10
const COLOUR_WORD = /^(red|orange|yellow|green|blue|purple|brown|black|white|pink|grey|light) /
const COLOURS = ['red', 'orange', 'yellow', 'green', 'blue', 'purple', 'pink', 'brown']
/** Things, of which one would ask a picture; of faces and people the names differ too little. */
const GROUPS = new Set(['animals-nature', 'food-drink', 'travel-places', 'activities', 'objects'])

const here = new URL('.', import.meta.url)
/** @type {{ concepts: Array<{ name: string, synonyms: string[], group: string, isHeldOut: boolean }> }} */
const { concepts } = JSON.parse(readFileSync(new URL('data/sprites.json', here), 'utf8'))
const things = shuffled(
  concepts.filter(({ group }) => GROUPS.has(group)),
  ({ name }) => `thing ${name}`,
)
const trained = things.filter(({ isHeldOut }) => !isHeldOut)
const names = concepts.map(({ name }) => name)

const pairs = shuffled(
  trained
    .filter(({ name }) => !COLOUR_WORD.test(name))
    .flatMap(({ name }) => COLOURS.filter((colour) => isHeldOut(colour, name)).map((colour) => ({ colour, name }))),
  ({ colour, name }) => `pair ${colour} ${name}`,
)
const synonyms = shuffled(
  trained.flatMap(({ name, synonyms: words }) =>
    words.filter((word) => isHeldOut(name, word)).map((word) => ({ name, word })),
  ),
  ({ name, word }) => `synonym ${name} ${word}`,
)
const questions = {
  trained: trained.slice(0, EACH).map(({ name }) => question(article(name), name)),
  'a colour and a name that never met in training': pairs.slice(0, EACH).map(({ colour, name }) => ({
    ...question(article(`${colour} ${name.replace(COLOUR_WORD, '')}`), name),
    colour,
  })),
  'a synonym that was left out': synonyms.slice(0, EACH).map(({ name, word }) => question(article(word), name)),
  'a name that was left out with its pictures': things
    .filter((one) => one.isHeldOut)
    .slice(0, EACH)
    .map(({ name }) => question(article(name), name)),
  'two things side by side': Array.from({ length: SIDE_BY_SIDE }, (_, i) => {
    const [left, right] = [trained[EACH + 2 * i], trained[EACH + 2 * i + 1]]
    if (left === undefined || right === undefined) throw new Error('there are too few names')
    return {
      ...question(`${article(left.name)} beside ${article(right.name)}`, left.name),
      right: { name: right.name, others: othersThan(right.name) },
    }
  }),
}
writeFileSync(new URL('prompts.json', here), `${JSON.stringify({ names, questions }, undefined, 2)}\n`)

/**
 * @param {string} prompt
 * @param {string} name
 */
function question(prompt, name) {
  return { prompt, name, others: othersThan(name) }
}

/** @param {string} name */
function othersThan(name) {
  const others = things.filter((one) => one.name !== name).map((one) => one.name)
  return shuffled(others, (other) => `${name} ${other}`).slice(0, OTHERS)
}

/** @param {string[]} parts */
function isHeldOut(...parts) {
  return hash(parts.join(' / ')) % 100 < HELD_OUT_PERCENT
}

/** @param {string} name */
function article(name) {
  return `${/^[aeiou]/.test(name) ? 'an' : 'a'} ${name}`
}

/**
 * @template T
 * @param {readonly T[]} list
 * @param {(one: T) => string} key
 */
function shuffled(list, key) {
  return list
    .map((one) => ({ one, at: hash(key(one)) }))
    .sort((a, b) => a.at - b.at)
    .map(({ one }) => one)
}

/** @param {string} text */
function hash(text) {
  return createHash('sha256').update(text).digest().readUInt32BE(0)
}
