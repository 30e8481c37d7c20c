/**
 * How often the right thing and the right colour come out, over the API of a running Berth:
 * `BERTH_KEY=… npx tsx models/pictogram/evaluate.ts`. One picture of a fixed seed for each prompt of `prompts.json`,
 * which `choose-prompts.mjs` has chosen; nothing is left out, and nothing is tried twice.
 */
import { readFile } from 'node:fs/promises'
import { embed, paint } from './ask.ts'
import { readDrawings } from './drawing.ts'
import { loadJudge, mainColour, rank, type Part } from './judge.ts'

interface Wanted {
  readonly name: string
  readonly others: readonly string[]
}

interface Question extends Wanted {
  readonly prompt: string
  readonly colour?: string
  /** There are two things, the other one on the left. */
  readonly right?: Wanted
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

class Score {
  things = 0
  amongTen = 0
  amongAll = 0
  coloured = 0
  rightColour = 0

  async look(png: Uint8Array, { name, others }: Wanted, part?: Part): Promise<void> {
    const seen = await judge.see(png, part)
    this.things += 1
    if (rank(seen, labels, [name, ...others])[0] === name) this.amongTen += 1
    if (rank(seen, labels, names).slice(0, FIRST).includes(name)) this.amongAll += 1
  }

  async lookForColour(png: Uint8Array, colour: string): Promise<void> {
    this.coloured += 1
    if ((await mainColour(png)) === colour) this.rightColour += 1
  }

  tell(what: string): void {
    const cells = [
      what,
      this.things,
      share(this.amongTen, this.things),
      share(this.amongAll, this.things),
      this.coloured === 0 ? '–' : share(this.rightColour, this.coloured),
    ]
    process.stdout.write(`| ${cells.join(' | ')} |\n`)
  }
}

function share(count: number, of: number): string {
  return `${count} (${Math.round((100 * count) / of)} %)`
}

process.stdout.write(
  `| asked for | things | right among ten | in the first ${FIRST} of ${names.length} | right colour |\n`,
)
process.stdout.write('|---|---|---|---|---|\n')
for (const [kind, list] of Object.entries(questions)) {
  const score = new Score()
  for (const question of list) {
    const png = await paint({ prompt: question.prompt, seed: SEED, steps: STEPS })
    await score.look(png, question, question.right === undefined ? 'whole' : 'left')
    if (question.right !== undefined) await score.look(png, question.right, 'right')
    if (question.colour !== undefined) await score.lookForColour(png, question.colour)
  }
  score.tell(kind)
}

const single = Object.values(questions)
  .flat()
  .filter(({ right }) => right === undefined)
const drawings = await readDrawings(single.map(({ name }) => name))
if (drawings !== undefined) {
  const score = new Score()
  for (const question of single) {
    const png = drawings.get(question.name)
    if (png !== undefined) await score.look(png, question)
  }
  score.tell('for comparison: the drawings themselves')
}
