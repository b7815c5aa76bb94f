//! The return type: what the body must give, and where errors about it point.

use proc_macro2::{Delimiter, Group, Ident, Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::punctuated::Punctuated;
use syn::token::Paren;
use syn::{
    AngleBracketedGenericArguments, Error, GenericArgument, Path, PathArguments, Result,
    ReturnType, Signature, Token, Type, TypeInfer, TypeParamBound, TypeTuple,
};

use crate::args::OnBusy;
use crate::item::Form;
use crate::span::{generated_at, moved_to};

/// What a guarded call gives back.
pub(crate) struct Output {
    /// The type, with `_` for what a body cannot write.
    ty: Type,
    /// The first and the last token of what stands for it in the source.
    start: Span,
    end: Span,
}

impl Output {
    pub(crate) fn new(signature: &Signature, form: &Form, on_busy: &OnBusy) -> Result<Self> {
        let name = &signature.ident;
        let ReturnType::Type(_, declared) = &signature.output else {
            check_unit(name, name, on_busy)?;
            let unit = TypeTuple {
                attrs: Vec::new(),
                paren_token: Paren(name.span()),
                elems: Punctuated::new(),
            };
            return Ok(Self {
                ty: Type::Tuple(unit),
                start: name.span(),
                end: name.span(),
            });
        };
        let output = match form {
            Form::Async => Some(&**declared),
            Form::Future(_) => future_output(declared),
        };
        let shown = output.unwrap_or(declared);
        match output.map(bare) {
            Some(Type::Never(never)) => {
                return Err(Error::new_spanned(
                    never,
                    format!(
                        "`{name}` never returns, so it could never release its lock, nor report that it is busy: put \
                         `#[distributed_lock]` on what it calls again and again"
                    ),
                ));
            }
            Some(Type::Tuple(tuple)) if tuple.elems.is_empty() => check_unit(name, tuple, on_busy)?,
            _ => {}
        }
        let (start, end) = ends(shown);
        let ty = output
            .cloned()
            .map_or_else(|| inferred(start), without_impl_trait);
        Ok(Self { ty, start, end })
    }

    /// Where it is in the source, for names of ours.
    pub(crate) fn position(&self) -> Span {
        generated_at(self.start)
    }

    /// A statement that never runs and tells the compiler the body's type: an async block cannot declare one.
    pub(crate) fn anchor(&self, krate: &TokenStream) -> TokenStream {
        if matches!(self.ty, Type::Infer(_)) {
            return TokenStream::new();
        }
        let ty = &self.ty;
        // The compiler explains a mismatch by pointing at what fixed the type.
        let spot = generated_at(self.start);
        let fixed = quote_spanned!(spot=> return __lock_value;);
        quote_spanned! {Span::mixed_site()=>
            if let #krate::__private::Some(__lock_value) =
                #krate::__private::None::<#ty>
            {
                #fixed
            }
        }
    }

    /// A call of a function of one of the runtime's traits that gives this type, written so that a type without the
    /// trait is reported here, and not a bound of ours that it does not meet.
    pub(crate) fn call(
        &self,
        krate: &TokenStream,
        (owner, function): (&str, &str),
        arguments: TokenStream,
    ) -> TokenStream {
        let start = generated_at(self.start);
        let end = generated_at(self.end);
        let owner = Ident::new(owner, end);
        let function = Ident::new(function, end);
        let mut arguments = Group::new(Delimiter::Parenthesis, arguments);
        arguments.set_span(end);
        match &self.ty {
            // Known only by inference: then the whole return type is the place to point at.
            Type::Infer(_) => {
                let krate = moved_to(self.start, krate);
                quote_spanned!(end=> #krate::fallback::#owner::#function #arguments)
            }
            ty => {
                let krate = moved_to(self.end, krate);
                let open = quote_spanned!(start=> <);
                quote_spanned!(end=> #open #ty as #krate::fallback::#owner>::#function #arguments)
            }
        }
    }
}

/// A function that returns nothing has no place for an error.
fn check_unit(name: &Ident, spot: impl ToTokens, on_busy: &OnBusy) -> Result<()> {
    if !matches!(on_busy, OnBusy::Error) {
        return Ok(());
    }
    Err(Error::new_spanned(
        spot,
        format!(
            "`{name}` returns nothing, so it cannot report that the lock is busy: return `Result<(), E>` where \
             `E: From<LockError>`, or write `on_busy = skip` to leave quietly"
        ),
    ))
}

fn ends(ty: &Type) -> (Span, Span) {
    let mut trees = ty.to_token_stream().into_iter();
    let start = trees
        .next()
        .map_or_else(Span::call_site, |tree| tree.span());
    let end = trees.last().map_or(start, |tree| tree.span());
    (start, end)
}

/// The type inside parentheses and a macro's invisible groups.
fn bare(ty: &Type) -> &Type {
    match ty {
        Type::Group(group) => bare(&group.elem),
        Type::Paren(paren) => bare(&paren.elem),
        ty => ty,
    }
}

/// `T` of `impl Future<Output = T>` and of `Pin<Box<dyn Future<Output = T> + …>>`.
fn future_output(ty: &Type) -> Option<&Type> {
    let bounds = match bare(ty) {
        Type::ImplTrait(ty) => &ty.bounds,
        Type::TraitObject(ty) => &ty.bounds,
        Type::Path(ty) => {
            return arguments(&ty.path)?
                .args
                .iter()
                .find_map(|argument| match argument {
                    GenericArgument::Type(inner) => future_output(inner),
                    _ => None,
                });
        }
        _ => return None,
    };
    bounds.iter().find_map(|bound| {
        let TypeParamBound::Trait(bound) = bound else {
            return None;
        };
        arguments(&bound.path)?
            .args
            .iter()
            .find_map(|argument| match argument {
                GenericArgument::AssocType(output) if output.ident == "Output" => Some(&output.ty),
                _ => None,
            })
    })
}

/// The arguments of a path's last segment.
fn arguments(path: &Path) -> Option<&AngleBracketedGenericArguments> {
    match &path.segments.last()?.arguments {
        PathArguments::AngleBracketed(arguments) => Some(arguments),
        _ => None,
    }
}

fn inferred(position: Span) -> Type {
    let underscore_token = Token![_](generated_at(position));
    Type::Infer(TypeInfer {
        attrs: Vec::new(),
        underscore_token,
    })
}

/// `impl Trait` cannot be written in a body, where `_` says the same.
fn without_impl_trait(ty: Type) -> Type {
    let boxed = |ty: Box<Type>| Box::new(without_impl_trait(*ty));
    match ty {
        Type::ImplTrait(ty) => inferred(ty.impl_token.span),
        Type::Array(mut ty) => {
            ty.elem = boxed(ty.elem);
            Type::Array(ty)
        }
        // An `impl Trait` that a macro or parentheses are around is one. What is around other types stays: without it,
        // `&(dyn A + B)` would mean something else.
        Type::Group(ty) if is_impl_trait(&ty.elem) => without_impl_trait(*ty.elem),
        Type::Group(mut ty) => {
            ty.elem = boxed(ty.elem);
            Type::Group(ty)
        }
        Type::Paren(ty) if is_impl_trait(&ty.elem) => without_impl_trait(*ty.elem),
        Type::Paren(mut ty) => {
            ty.elem = boxed(ty.elem);
            Type::Paren(ty)
        }
        Type::Path(mut ty) => {
            in_arguments(&mut ty.path);
            Type::Path(ty)
        }
        Type::Ptr(mut ty) => {
            ty.elem = boxed(ty.elem);
            Type::Ptr(ty)
        }
        Type::Reference(mut ty) => {
            ty.elem = boxed(ty.elem);
            Type::Reference(ty)
        }
        Type::Slice(mut ty) => {
            ty.elem = boxed(ty.elem);
            Type::Slice(ty)
        }
        Type::TraitObject(mut ty) => {
            for bound in &mut ty.bounds {
                if let TypeParamBound::Trait(bound) = bound {
                    in_arguments(&mut bound.path);
                }
            }
            Type::TraitObject(ty)
        }
        Type::Tuple(mut ty) => {
            ty.elems = std::mem::take(&mut ty.elems)
                .into_iter()
                .map(without_impl_trait)
                .collect();
            Type::Tuple(ty)
        }
        other => other,
    }
}

fn is_impl_trait(ty: &Type) -> bool {
    matches!(bare(ty), Type::ImplTrait(_))
}

/// [`without_impl_trait`] for what a path has between angle brackets.
fn in_arguments(path: &mut Path) {
    for segment in &mut path.segments {
        let PathArguments::AngleBracketed(arguments) = &mut segment.arguments else {
            continue;
        };
        for argument in &mut arguments.args {
            if let GenericArgument::Type(ty) = argument {
                *ty = without_impl_trait(ty.clone());
            } else if let GenericArgument::AssocType(assoc) = argument {
                assoc.ty = without_impl_trait(assoc.ty.clone());
            }
        }
    }
}
