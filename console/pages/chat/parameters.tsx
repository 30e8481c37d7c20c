/** How a chat model is to answer. */
import { TextArea } from '../../ui/field.tsx'
import { ParameterFields, readParameters, seedParameter, type Parameter, type Typed } from '../playground/parameter.tsx'

const plain: readonly Parameter[] = [
  {
    name: 'max_tokens',
    label: 'Max tokens',
    hint: 'The longest answer. Its price is set aside until the answer has ended.',
    least: 1,
    most: 100_000_000,
    isWhole: true,
  },
  {
    name: 'temperature',
    label: 'Temperature',
    hint: '0 takes the likeliest word each time; 2 is wild.',
    least: 0,
    most: 2,
  },
  {
    name: 'top_p',
    label: 'Top p',
    hint: 'Only the likeliest words, up to this share.',
    least: 0,
    most: 1,
  },
  { ...seedParameter, hint: 'The same draw again, as far as the engine can.' },
]

const further: readonly Parameter[] = [
  {
    name: 'top_k',
    label: 'Top k',
    hint: 'Only so many of the likeliest words; -1 takes all.',
    least: -1,
    most: Number.MAX_SAFE_INTEGER,
    isWhole: true,
  },
  { name: 'min_p', label: 'Min p', hint: 'No words far less likely than the likeliest.', least: 0, most: 1 },
  { name: 'frequency_penalty', label: 'Frequency penalty', hint: 'Against saying words often.', least: 0, most: 1 },
  { name: 'presence_penalty', label: 'Presence penalty', hint: 'Against saying words again.', least: 0, most: 1 },
  {
    name: 'repetition_penalty',
    label: 'Repetition penalty',
    hint: '1 is none; more is against repetition.',
    least: 0,
    most: Number.MAX_SAFE_INTEGER,
  },
]

/** The stop texts are under the name `stop`, one a line. */
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
        hint="How it is to answer, before everything else."
        onChange={(event) => onSystem(event.target.value)}
      />
      <ParameterFields parameters={plain} typed={typed} faults={faults} onChange={onTyped} />
      <TextArea
        label="Stop texts"
        value={typed['stop'] ?? ''}
        rows={2}
        hint="One a line. The answer ends before the first that comes up."
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
