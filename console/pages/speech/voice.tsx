/** Chooses a voice. The built-in model has one; other models have names of their own. */
import { useState } from 'react'
import { SelectField, TextField } from '../../ui/field.tsx'

const OTHER = 'other'
const voices = [
  { value: '', label: 'Default' },
  { value: 'neural', label: 'neural: American, male' },
  { value: OTHER, label: 'Other …' },
] as const

export function VoiceField({ value, onChange }: { value: string; onChange: (voice: string) => void }) {
  const [isOther, setOther] = useState(false)
  return (
    <>
      <SelectField
        label="Voice"
        value={isOther ? OTHER : value}
        choices={voices}
        hint="The voice of the built-in model. Other models have their own."
        onChange={(event) => {
          setOther(event.target.value === OTHER)
          onChange(event.target.value === OTHER ? '' : event.target.value)
        }}
      />
      {isOther && (
        <TextField
          label="Name of the voice"
          value={value}
          maxLength={100}
          onChange={(event) => onChange(event.target.value)}
        />
      )}
    </>
  )
}
