/** Numeric request parameters, kept as typed. Empty ones are left out, so that the server's defaults apply. */
import { TextField } from '../../ui/field.tsx'

export interface Parameter {
  /** The parameter's name in the API. */
  readonly name: string
  readonly label: string
  readonly hint: string
  readonly least: number
  readonly most: number
  readonly isWhole?: true
}

export type Typed = Readonly<Record<string, string>>

export interface ReadParameters {
  readonly values: Readonly<Record<string, number>>
  /** Error messages by parameter name. */
  readonly faults: Readonly<Record<string, string>>
}

export function readParameters(parameters: readonly Parameter[], typed: Typed): ReadParameters {
  const values: Record<string, number> = {}
  const faults: Record<string, string> = {}
  for (const parameter of parameters) {
    const text = (typed[parameter.name] ?? '').trim()
    if (text === '') continue
    const value = readNumber(parameter, text)
    if (value === undefined) faults[parameter.name] = rangeOf(parameter)
    else values[parameter.name] = value
  }
  return { values, faults }
}

function readNumber({ least, most, isWhole }: Parameter, text: string): number | undefined {
  if (!(isWhole === true ? /^-?\d{1,16}$/ : /^-?\d{0,6}\.?\d{1,9}$/).test(text)) return undefined
  const value = Number.parseFloat(text)
  return value < least || value > most ? undefined : value
}

function rangeOf({ least, most, isWhole }: Parameter): string {
  const kind = isWhole === true ? 'Must be a whole number' : 'Must be a number'
  if (most === Number.MAX_SAFE_INTEGER) return least === -most ? kind : `${kind} of at least ${least}`
  return `${kind} from ${least} to ${most}`
}

interface ParameterFieldsProps {
  readonly parameters: readonly Parameter[]
  readonly typed: Typed
  readonly faults: ReadParameters['faults']
  readonly onChange: (typed: Typed) => void
}

export function ParameterFields({ parameters, typed, faults, onChange }: ParameterFieldsProps) {
  return parameters.map(({ name, label, hint }) => (
    <TextField
      key={name}
      label={label}
      inputMode="decimal"
      value={typed[name] ?? ''}
      placeholder="Default"
      hint={hint}
      error={faults[name]}
      onChange={(event) => onChange({ ...typed, [name]: event.target.value })}
    />
  ))
}

export const seedParameter: Parameter = {
  name: 'seed',
  label: 'Seed',
  hint: 'Reproduces a result.',
  least: -Number.MAX_SAFE_INTEGER,
  most: Number.MAX_SAFE_INTEGER,
  isWhole: true,
}
