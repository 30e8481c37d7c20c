/** Starts the console. */
import { QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { queries } from './api/query.ts'
import { router } from './routes.tsx'
import { StepUpHost } from './shell/step-up-host.tsx'
import './theme.css'
import { Toasts } from './ui/toast.tsx'

// For schemas that pages load: compiled ones need `unsafe-eval`, which the content security policy forbids.
Object.assign(globalThis, { __zod_globalConfig: { jitless: true } })

const root = document.getElementById('root')
if (root === null) throw new Error('the page has no element "root"')
const app = (
  <StrictMode>
    <QueryClientProvider client={queries}>
      <RouterProvider router={router} />
      <StepUpHost />
      <Toasts />
    </QueryClientProvider>
  </StrictMode>
)
const start = (): void => createRoot(root).render(app)
// The frame of index.html stays until the first page can be drawn as a whole. The router shows a failure itself.
router.load().then(start, start)
