/** `berth speak`: a text as speech, into a file. */
import { Option, type Command } from 'commander'
import { formatUsdForPeople, nanoUsdToNumber } from '../base/money.ts'
import { fetchCost } from '../client/inference.ts'
import { parseDecimal } from './chat.ts'
import { chooseModel, withModels } from './inference-call.ts'
import { parseModelName } from './model-option.ts'
import { addOutputOptions, checkOutput, writeOutput, type OutputOptions } from './output-file.ts'
import { readPrompt } from './prompt.ts'
import { fields } from './screen.ts'
import type { Run, Session } from './session.ts'
import { CliError, exitCodes } from './shell.ts'

const EXAMPLE = 'berth speak "The ship is in the harbour." -o ship.mp3'
const [SLOWEST, FASTEST] = [0.1, 5]

interface SpeakOptions extends OutputOptions {
  readonly model?: string
  readonly voice?: string
  readonly speaker?: string
  readonly speed?: number
  readonly language?: string
}

export function addSpeakCommands(program: Command, run: Run): void {
  const command = program
    .command('speak')
    .description('speak a text')
    .argument('[text...]', 'what is to be said; - stands for the standard input')
  const speak = addOutputOptions(command, 'an MP3')
    .option('-m, --model <name>', 'which model (the first speech model on sale)', parseModelName)
    .option('--voice <name>', 'whose voice, such as slt')
    .addOption(new Option('--speaker <name>', 'another word for --voice').conflicts('voice').hideHelp())
    .option('--speed <n>', 'how fast; 1 is usual', parseDecimal(SLOWEST, FASTEST))
    .option('--language <code>', 'such as en-US')
    .addHelpText('after', `\nExamples:\n  ${EXAMPLE} --voice slt --speed 1.2\n  berth speak -o letter.mp3 < letter.txt`)
  speak.action(
    run('customer', async (session) => {
      const options = speak.opts<SpeakOptions>()
      checkOutput(options)
      const text = await readPrompt(speak.args, EXAMPLE)
      const model = await chooseModel(session.client, 'speech', { named: options.model })
      await withModels(session, 'speech', speakInto(session, options, { model, text, ...parametersOf(options) }))
    }),
  )
}

async function speakInto(
  session: Session,
  options: OutputOptions,
  body: { readonly model: string; readonly text: string },
): Promise<void> {
  const { client, screen } = session
  const { requestId, answer } = await client.infer('generateAudio', { body })
  const { audio, duration, usage } = answer
  const bytes = Buffer.from(audio, 'base64')
  if (bytes.length === 0) throw new CliError(exitCodes.failed, 'The answer has no sound.', ['Try it again.'])
  writeOutput(options, bytes)
  const cost = await fetchCost(client, requestId)
  const { output: file } = options
  const told = {
    file,
    bytes: bytes.length,
    model: body.model,
    seconds: duration,
    characters: usage,
    requestId,
    costNanoUsd: cost === undefined ? null : nanoUsdToNumber(cost),
  }
  screen.show(told, () =>
    fields(screen, [
      ['File', { text: file, style: 'bold' }],
      ['Model', told.model],
      ['Length', `${duration.toFixed(1)} s, of ${usage.toLocaleString('en-US')} characters`],
      ['Cost', cost === undefined ? `not known yet: berth cost ${requestId}` : formatUsdForPeople(cost)],
      ['Request', requestId],
    ]),
  )
}

function parametersOf({ voice, speaker = voice, speed, language }: SpeakOptions): Record<string, unknown> {
  return {
    ...(speaker === undefined ? {} : { speaker }),
    ...(speed === undefined ? {} : { speed }),
    ...(language === undefined ? {} : { language }),
  }
}
