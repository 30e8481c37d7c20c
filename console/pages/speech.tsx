/** Not written yet. */
import { Page } from '../ui/page.tsx'

export function SpeechPage() {
  return <Page title="Speech">…</Page>
}
