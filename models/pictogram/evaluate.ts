/**
 * How often the right thing and the right colour come out, over the API of a running Berth:
 * `BERTH_KEY=… npx tsx models/pictogram/evaluate.ts`. One picture of a fixed seed for each prompt of
 * `prompts.json`, which `choose-prompts.mjs` has chosen; nothing is left out, and nothing is tried twice.
 */
import { readFile } from 'node:fs/promises'
import { embed, paint } from './ask.ts'
import { loadJudge, mainColour, rank, type Part } from './judge.ts'

interface Question {
  readonly prompt: string
  readonly name: string
  readonly others: readonly string[]
  readonly colour?: string
  readonly right?: { readonly name: string; readonly others: readonly string[] }
}

interface Prompts {
  readonly names: readonly string[]
  readonly questions: Readonly<Record<string, readonly Question[]>>
}

const STEPS = 20
const SEED = 1
/** How many names come first of all, among which the right one counts as found. */
const FIRST = 5

const here = new URL('.', import.meta.url)
const { names, questions } = JSON.parse(await readFile(new URL('prompts.json', here), 'utf8')) as Prompts
const judge = await loadJudge(new URL('judge.onnx', here).pathname)
const labels = await embed(names)

process.stdout.write(
  `| asked for | pictures | right among ten | among the first ${FIRST} of ${names.length} | right colour |\n`,
)
process.stdout.write('|---|---|---|---|---|\n')
for (const [kind, list] of Object.entries(questions)) {
  const [things, amongTen, amongAll, coloured, colours] = await judgeAll(list)
  const colour = coloured === 0 ? '–' : `${colours} of ${coloured}`
  const [ten, all] = [amongTen, amongAll].map(
    (count) => `${count} of ${things} (${Math.round((100 * count) / things)} %)`,
  )
  process.stdout.write(`| ${kind} | ${list.length} | ${ten} | ${all} | ${colour} |\n`)
}

async function judgeAll(list: readonly Question[]): Promise<[number, number, number, number, number]> {
  let [things, amongTen, amongAll, coloured, rightColour] = [0, 0, 0, 0, 0]
  for (const { prompt, name, others, colour, right } of list) {
    const png = await paint({ prompt, seed: SEED, steps: STEPS })
    const parts: Array<[Part, string, readonly string[]]> =
      right === undefined
        ? [['whole', name, others]]
        : [
            ['left', name, others],
            ['right', right.name, right.others],
          ]
    for (const [part, wanted, rest] of parts) {
      const seen = await judge.see(png, part)
      things += 1
      if (rank(seen, labels, [wanted, ...rest])[0] === wanted) amongTen += 1
      if (rank(seen, labels, names).slice(0, FIRST).includes(wanted)) amongAll += 1
    }
    if (colour === undefined) continue
    coloured += 1
    if ((await mainColour(png)) === colour) rightColour += 1
  }
  return [things, amongTen, amongAll, coloured, rightColour]
}
