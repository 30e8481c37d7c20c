/** Shows the current request as code. */
import { useState } from 'react'
import { Button, TextLink } from '../../ui/button.tsx'
import { CodeBlock } from '../../ui/copy.tsx'
import { Dialog } from '../../ui/dialog.tsx'
import { Tabs } from '../../ui/tabs.tsx'
import type { Language, Snippets } from './snippet.ts'

const labels: Readonly<Record<Language, string>> = { curl: 'curl', python: 'Python', typescript: 'TypeScript' }

export function CodeButton({ make, disabled }: { make: () => Snippets; disabled?: boolean }) {
  const [snippets, setSnippets] = useState<Snippets>()
  return (
    <>
      <Button onClick={() => setSnippets(make())} disabled={disabled}>
        Copy as code
      </Button>
      {snippets !== undefined && <CodeDialog snippets={snippets} onClose={() => setSnippets(undefined)} />}
    </>
  )
}

function CodeDialog({ snippets, onClose }: { snippets: Snippets; onClose: () => void }) {
  const [language, setLanguage] = useState<Language>('curl')
  return (
    <Dialog title="Copy as code" onClose={onClose} wide>
      <p className="mb-3 text-sm text-muted">
        The current request. Set the environment variable <code className="font-mono">BERTH_KEY</code> to an{' '}
        <TextLink to="/keys">API key</TextLink> with the scope <code>inference</code>.
      </p>
      <Tabs label="Language" tabs={labels} chosen={language} onChoose={setLanguage}>
        <CodeBlock code={snippets[language]} label={`Request in ${labels[language]}`} />
      </Tabs>
    </Dialog>
  )
}
