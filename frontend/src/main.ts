import { mount } from 'svelte'
import App from './App.svelte'
import { httpBackend } from './backend/http'
import './styles/base.css'

const target = document.getElementById('app')
if (!target) throw new Error('index.html has no #app')
mount(App, { target, props: { backend: httpBackend() } })
