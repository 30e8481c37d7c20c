/** `berth image`: a picture into a file. In a terminal a bar shows how long it waits and how many steps are done. */
import { InvalidArgumentError, type Command } from 'commander'
import { formatUsdForPeople, nanoUsdToNumber } from '../base/money.ts'
import { pictureSide } from '../contract/media.ts'
import type { Reply } from '../client/client.ts'
import { fetchCost, type Chunk } from '../client/inference.ts'
import { count } from '../view/number.ts'
import { parseDecimal, parseSeed } from './chat.ts'
import { chooseModel, withModels } from './inference-call.ts'
import { parseModelName } from './model-option.ts'
import { addOutputOptions, checkOutput, writeOutput, type OutputOptions } from './output-file.ts'
import { readPrompt } from './prompt.ts'
import { fields } from './screen.ts'
import type { Run, Session } from './session.ts'
import { CliError, exitCodes, type Shell } from './shell.ts'
import { parseWhole } from './supply.ts'

const FAVOURITE = 'pictogram'
const EXAMPLE = 'berth image "a red apple" -o apple.png'
const MAX_STEPS = 1_000
const MAX_CFG_SCALE = 50
const BAR_CHARS = 30

interface PictureOptions extends OutputOptions {
  readonly model?: string
  readonly width?: number
  readonly height?: number
  readonly steps?: number
  readonly cfgScale?: number
  readonly seed?: number
  readonly negative?: string
  readonly quiet?: true
}

export function addPictureCommands(program: Command, run: Run, shell: Shell): void {
  const command = program
    .command('image')
    .description('make a picture')
    .argument('[prompt...]', 'what is to be seen; - stands for the standard input')
  const image = addOutputOptions(command, 'a PNG')
    .option('-m, --model <name>', `which model (${FAVOURITE}, or the first on sale)`, parseModelName)
    .option('--width <pixels>', 'such as 512', parseSide)
    .option('--height <pixels>', 'such as 512', parseSide)
    .option('--steps <n>', 'more take longer and cost more', parseWhole(1, MAX_STEPS))
    .option('--cfg-scale <n>', 'how closely it follows the prompt', parseDecimal(0, MAX_CFG_SCALE))
    .option('--seed <n>', 'the same number draws the same again', parseSeed)
    .option('--negative <text>', 'what is not to be seen')
    .option('-q, --quiet', 'draw no bar')
    .addHelpText('after', `\nExample:\n  ${EXAMPLE} --width 512 --height 512 --seed 7`)
  image.action(
    run('customer', async (session) => {
      const options = image.opts<PictureOptions>()
      checkOutput(options)
      const prompt = await readPrompt(image.args, EXAMPLE)
      const model = await chooseModel(session.client, 'image', { named: options.model, favourite: FAVOURITE })
      const bar = shell.colour.error && !session.json && options.quiet === undefined ? barIn(shell) : noBar
      const body = { model_name: model, prompt, ...parametersOf(options) }
      await withModels(session, 'image', paintInto(session, options, body, bar))
    }),
  )
}

async function paintInto(
  session: Session,
  options: OutputOptions,
  body: { readonly model_name: string; readonly prompt: string },
  bar: Bar,
): Promise<void> {
  const { client, screen } = session
  const events = await client.stream('generateImage', { body })
  const { requestId } = events
  const result = await followPicture(events, bar)
  const [picture] = result.images
  if (picture === undefined) throw new CliError(exitCodes.failed, 'The answer has no picture.', ['Try it again.'])
  const bytes = Buffer.from(picture.image, 'base64')
  writeOutput(options, bytes)
  const cost = await fetchCost(client, requestId)
  const { output: file } = options
  const told = {
    file,
    bytes: bytes.length,
    model: body.model_name,
    seed: picture.random_seed,
    seconds: result.inference_time,
    notes: result.notes ?? [],
    requestId,
    costNanoUsd: cost === undefined ? null : nanoUsdToNumber(cost),
  }
  screen.show(told, () => [
    ...fields(screen, [
      ['File', { text: file, style: 'bold' }],
      ['Model', told.model],
      ['Seed', String(told.seed)],
      ['Cost', cost === undefined ? `not known yet: berth cost ${requestId}` : formatUsdForPeople(cost)],
      ['Request', requestId],
      ...told.notes.map((note) => ['Note', note] as const),
    ]),
  ])
}

async function followPicture(events: AsyncIterable<Chunk<'generateImage'>>, bar: Bar): Promise<Reply<'generateImage'>> {
  try {
    for await (const told of events) {
      if (told.type === 'result') return told
      if (told.type === 'queued') bar.draw(0, told.ahead === 0 ? 'next' : `${count(told.ahead, 'request')} before it`)
      else bar.draw(told.step / told.steps, `${told.step} of ${told.steps} steps`)
    }
  } finally {
    bar.clear()
  }
  throw new CliError(exitCodes.failed, 'The answer has no picture.', ['Try it again.'])
}

function parametersOf({ width, height, steps, cfgScale, seed, negative }: PictureOptions): Record<string, unknown> {
  return {
    ...(width === undefined ? {} : { width }),
    ...(height === undefined ? {} : { height }),
    ...(steps === undefined ? {} : { steps }),
    ...(cfgScale === undefined ? {} : { cfg_scale: cfgScale }),
    ...(seed === undefined ? {} : { seed }),
    ...(negative === undefined ? {} : { negative_prompt: negative }),
  }
}

interface Bar {
  draw(share: number, words: string): void
  clear(): void
}

const noBar: Bar = { draw: () => {}, clear: () => {} }

/** Draws over itself, on the error side. */
function barIn(shell: Shell): Bar {
  return {
    draw: (share, words) => {
      const filled = Math.round(Math.min(1, Math.max(0, share)) * BAR_CHARS)
      shell.writeError(`\r\u001B[K${'█'.repeat(filled)}${'░'.repeat(BAR_CHARS - filled)} ${words}`)
    },
    clear: () => shell.writeError('\r\u001B[K'),
  }
}

function parseSide(text: string): number {
  const side = pictureSide.safeParse(/^\d{1,5}$/.test(text) ? Number.parseInt(text, 10) : undefined)
  if (!side.success) {
    throw new InvalidArgumentError(`From ${pictureSide.minValue} to ${pictureSide.maxValue} pixels.`)
  }
  return side.data
}
