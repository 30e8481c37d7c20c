/** Sampling parameters of a chat model. */
import { TextArea } from '../../ui/field.tsx'
import { ParameterFields, readParameters, seedParameter, type Parameter, type Typed } from '../playground/parameter.tsx'

const plain: readonly Parameter[] = [
  {
    name: 'max_tokens',
    label: 'Max tokens',
    hint: 'Maximum answer length. Its full cost is held until the answer is complete.',
    least: 1,
    most: 100_000_000,
    isWhole: true,
  },
  {
    name: 'temperature',
    label: 'Temperature',
    hint: '0 is deterministic, 2 is very random.',
    least: 0,
    most: 2,
  },
  {
    name: 'top_p',
    label: 'Top p',
    hint: 'Samples from the most likely tokens up to this probability.',
    least: 0,
    most: 1,
  },
  { ...seedParameter, hint: 'Reproduces an answer, if the engine supports it.' },
]

const further: readonly Parameter[] = [
  {
    name: 'top_k',
    label: 'Top k',
    hint: 'Samples from this many tokens; -1 for all.',
    least: -1,
    most: Number.MAX_SAFE_INTEGER,
    isWhole: true,
  },
  { name: 'min_p', label: 'Min p', hint: 'Excludes tokens far less likely than the best.', least: 0, most: 1 },
  { name: 'frequency_penalty', label: 'Frequency penalty', hint: 'Penalizes frequent tokens.', least: 0, most: 1 },
  { name: 'presence_penalty', label: 'Presence penalty', hint: 'Penalizes repeated tokens.', least: 0, most: 1 },
  {
    name: 'repetition_penalty',
    label: 'Repetition penalty',
    hint: '1 is off; higher values reduce repetition.',
    least: 0,
    most: Number.MAX_SAFE_INTEGER,
  },
]

/** Reads the parameters. Stop sequences are under the name `stop`, one per line. */
export function readSampling(typed: Typed) {
  const { values, faults } = readParameters([...plain, ...further], typed)
  const stop = (typed['stop'] ?? '').split('\n').filter((line) => line !== '')
  return { sampling: { ...values, ...(stop.length === 0 ? {} : { stop }) }, faults }
}

interface ChatParametersProps {
  readonly system: string
  readonly onSystem: (system: string) => void
  readonly typed: Typed
  readonly onTyped: (typed: Typed) => void
}

export function ChatParameters({ system, onSystem, typed, onTyped }: ChatParametersProps) {
  const { faults } = readSampling(typed)
  const isFurtherWrong = further.some(({ name }) => faults[name] !== undefined)
  return (
    <div className="flex flex-col gap-4">
      <TextArea
        label="System prompt"
        value={system}
        rows={3}
        placeholder="You answer in one sentence."
        hint="Instructions that apply to the whole conversation."
        onChange={(event) => onSystem(event.target.value)}
      />
      <ParameterFields parameters={plain} typed={typed} faults={faults} onChange={onTyped} />
      <TextArea
        label="Stop sequences"
        value={typed['stop'] ?? ''}
        rows={2}
        hint="One per line. The answer ends before the first match."
        onChange={(event) => onTyped({ ...typed, stop: event.target.value })}
      />
      <details className="text-sm" open={isFurtherWrong ? true : undefined}>
        <summary className="cursor-pointer font-medium">More parameters</summary>
        <div className="mt-3 flex flex-col gap-4">
          <ParameterFields parameters={further} typed={typed} faults={faults} onChange={onTyped} />
        </div>
      </details>
    </div>
  )
}
