/** Shows the current request as code, in the protocol and the language that the user chooses. */
import { useState } from 'react'
import { Button, TextLink } from '../../ui/button.tsx'
import { CodeBlock } from '../../ui/copy.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { SelectField } from '../../ui/field.tsx'
import { Tabs } from '../../ui/tabs.tsx'
import type { ProtocolCode } from './protocol.ts'
import type { Language } from './snippet.ts'

const labels: Readonly<Record<Language, string>> = { curl: 'curl', python: 'Python', typescript: 'TypeScript' }

/** `make` returns the request in each protocol, the default one first. */
export function CodeButton({ make, disabled }: { make: () => readonly ProtocolCode[]; disabled?: boolean }) {
  const [codes, setCodes] = useState<readonly ProtocolCode[]>()
  return (
    <>
      <Button onClick={() => setCodes(make())} disabled={disabled}>
        Copy as code
      </Button>
      {codes !== undefined && <CodeDialog codes={codes} onClose={() => setCodes(undefined)} />}
    </>
  )
}

function CodeDialog({ codes, onClose }: { codes: readonly ProtocolCode[]; onClose: () => void }) {
  const [language, setLanguage] = useState<Language>('curl')
  const [chosen, setChosen] = useState('')
  const code = codes.find(({ protocol }) => protocol === chosen) ?? codes[0]
  return (
    <Dialog title="Copy as code" onClose={onClose} wide>
      <p className="mb-3 text-sm text-muted">
        The current request. Set the environment variable <code className="font-mono">BERTH_KEY</code> to an{' '}
        <TextLink to="/keys">API key</TextLink> with the scope <code>inference</code>.
      </p>
      {codes.length > 1 && (
        <SelectField
          label="Protocol"
          className="mb-4 sm:w-72"
          value={code?.protocol}
          choices={codes.map(({ protocol }) => ({ value: protocol, label: protocol }))}
          hint={missingHint(code)}
          onChange={(event) => setChosen(event.target.value)}
        />
      )}
      <Tabs label="Language" tabs={labels} chosen={language} onChoose={setLanguage}>
        <CodeBlock code={code?.snippets[language] ?? ''} label={`Request in ${labels[language]}`} />
      </Tabs>
    </Dialog>
  )
}

function missingHint(code: ProtocolCode | undefined): string | undefined {
  const missing = code?.missing ?? []
  return missing.length === 0 ? undefined : `It has no ${missing.join(', ')}.`
}
